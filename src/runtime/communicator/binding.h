// SPDX-License-Identifier: Apache-2.0
// A call as the caller describes it becomes one that can be started: planned, and bound to its shape.
#pragma once

#include <memory>
#include <vector>

#include "runtime/communicator/bound_call.h"
#include "runtime/communicator/choosing.h"
#include "runtime/communicator/gate.h"
#include "runtime/host/plan_cache.h"
#include "runtime/request/call.h"

namespace lanecast {

struct ComposedCall;

class CallBinder {
 public:
  CallBinder(const Ground& ground, Gate& gate, const Choosing& choosing);

  /// By whoever is in the gate. Throws UsageError for what cannot be run, and where the communicator has failed.
  std::shared_ptr<Execution> prepare(Call call);
  std::shared_ptr<BoundCall> bind(const Call& call);
  /// Comes into the gate by itself, once it has compiled.
  std::shared_ptr<BoundCall> bind(const ComposedCall& call);
  /// A barrier as a collective.
  Call barrier();

  /// The memory of a call that has failed stays: its peers or MPI may still reach it.
  void keep(std::shared_ptr<OrderedCall> call) { plans_->keep(std::move(call)); }
  /// All of it, for as long as the process runs.
  void keep_for_good() { static_cast<void>(plans_.release()); }
  /// Calls from now on are planned anew.
  void forget_plans();

 private:
  const Ground& ground_;
  Gate& gate_;
  const Choosing& choosing_;
  std::unique_ptr<PlanCache> plans_;
  std::vector<std::byte> tokens_;  // of barriers
};

}  // namespace lanecast
