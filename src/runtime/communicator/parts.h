// SPDX-License-Identifier: Apache-2.0
// What a communicator is made of, from the ground up: each part sees those before it.
#pragma once

#include "runtime/communicator/carried_messages.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/messages.h"
#include "runtime/communicator/rounds.h"
#include "runtime/communicator/waits.h"

namespace lanecast {

struct Communicator::Parts {
  Parts(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress)
      : ground(std::move(surroundings), std::move(options), std::move(progress)) {}

  // The verbs, as Communicator has them.
  void run_blocked(const HostRequest& request, const Interrupt& interrupt);
  void run_beside_others(const HostRequest& request, const Interrupt& interrupt, const BesideOthers& beside);
  std::shared_ptr<Work> start(const HostRequest& request, const Interrupt& interrupt);
  /// By whoever is in the gate, to its end. False, with nothing done, where a collective is under way.
  bool run_alone(const HostRequest& request, const Interrupt& interrupt);
  /// The same, behind what is here; somebody has to move it then.
  std::shared_ptr<Work> queue(const HostRequest& request, const OrderedCalls::CallTurn& turn);

  Ground ground;
  Gate gate{ground};
  Failing failing{ground, gate};
  Waits waits{ground, gate, failing};
  Choosing choosing{ground.topology, ground.options, *ground.router};
  CallBinder binding{ground, gate, choosing};
  OrderedCalls calls{{ground, gate, failing, waits}, binding};
  MessageCalls messages{{ground, gate, failing, waits}};
  LaunchedCalls launched{{ground, gate, failing, waits}, binding};
  CarriedMessages carried{{ground, gate, failing, waits}};
  ProgressRounds rounds{{ground, gate, failing, waits}, {calls, launched, carried, messages}};
  GpuCalls gpu{{ground, gate, failing, waits}, {calls, launched, carried, rounds, choosing}};
  std::uint64_t splits = 0;  // that were made
};

}  // namespace lanecast
