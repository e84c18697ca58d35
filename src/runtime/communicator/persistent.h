// SPDX-License-Identifier: Apache-2.0
// A collective bound to its buffers once, to be made again and again: from the first time on it plans and allocates
// nothing.
#pragma once

#include <memory>

#include "runtime/communicator/communicator.h"
#include "runtime/request/composed_call.h"

namespace lanecast {

/// Must not outlive its communicator. Each start() is a call like any other, in its order among them.
class PersistentCall {
 public:
  /// Plans. Throws what Communicator::run does.
  PersistentCall(Communicator& communicator, const Call& call);
  /// Lowers and, where asked for or cheap, proves; collective only in that all ranks have to run the same. Throws
  /// UsageError for what does not fit, and PlanError where the plans are wrong, before any data moves.
  PersistentCall(Communicator& communicator, const ComposedCall& call);

  /// Other buffers of the same shape, from the next start on. Throws UsageError while a start is under way, and where
  /// they are in place and the others were not, or the other way round.
  void rebind(const void* in, void* out);
  /// Of one rank, for all chunks in flight.
  std::size_t scratch_bytes() const;
  const Plan& plan() const;

  /// Returns as Communicator::start() does. Throws UsageError while the start before has not finished.
  void start(const Interrupt& interrupt = {});
  /// Until the last start has finished; at once where there was none. Throws its error.
  void wait(const Interrupt& interrupt = {});
  void run(const Interrupt& interrupt = {});
  bool done() const;

 private:
  Communicator& communicator_;
  std::shared_ptr<BoundCall> call_;
};

}  // namespace lanecast
