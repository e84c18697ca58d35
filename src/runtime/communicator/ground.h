// SPDX-License-Identifier: Apache-2.0
// What every part of a communicator stands on: its ranks, its options, and what carries its messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/own_process.h"
#include "runtime/communicator/progress_thread.h"
#include "runtime/communicator/shown.h"
#include "runtime/request/options.h"
#include "runtime/watch/call_log.h"
#include "runtime/watch/patience.h"
#include "runtime/wires/surroundings.h"
#include "topology/topology.h"

namespace lanecast {

struct Ground {
  /// Collective. Throws UsageError on all ranks where it does on one.
  Ground(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress);

  int rank() const { return around.bootstrap.rank; }
  int size() const { return around.bootstrap.size; }
  int hosts() const;
  /// This host has more ranks than cores.
  void share_cores();
  /// Into `directory`. Any time, by any thread.
  void write_trace(const std::string& directory) const;
  /// Into the directory of the options, if they name one. Throws nothing: there is more to do.
  void keep_trace() const;

  OwnProcess process;
  Surroundings around;
  CommunicatorOptions options;  // settled, and equal on all ranks where they have to be
  Topology topology;
  std::uint64_t id;  // equal on its ranks, unlike any other's
  std::shared_ptr<Router> router;
  CallLog log;
  std::shared_ptr<ProgressThread> progress;
  Shown shown;
  Rivals rivals = Rivals::none;
};

}  // namespace lanecast
