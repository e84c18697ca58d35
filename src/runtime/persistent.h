// SPDX-License-Identifier: Apache-2.0
// A collective bound to its buffers once, to be made again and again: from the first time on it plans and allocates
// nothing.
#pragma once

#include <memory>

#include "runtime/communicator.h"

namespace lanecast {

/// Must not outlive its communicator. Each start() is a call like any other, in its order among them.
class PersistentCall {
 public:
  /// Plans. Throws what Communicator::run does.
  PersistentCall(Communicator& communicator, const Call& call);

  /// Returns at once. Throws UsageError while the start before has not finished.
  void start();
  /// Until the last start has finished; at once where there was none. Throws its error.
  void wait(const Interrupt& interrupt = {});
  void run(const Interrupt& interrupt = {});
  bool done() const;

 private:
  Communicator& communicator_;
  std::shared_ptr<Communicator::Started> call_;
};

}  // namespace lanecast
