// SPDX-License-Identifier: Apache-2.0
// A failed communicator stays failed: started calls end, peers hear why, further calls are refused.
#include "runtime/started.h"

namespace lanecast {

void Communicator::fail(const Failure& why) {
  failure_ = why;
  router_->abort(cause_ ? cause_ : why);
  const auto error = std::make_exception_ptr(TransportError("the communicator has failed: " + why.text));
  for (auto& call : started_) {
    plans_->keep(call->execution);
    call->work->finish(error);
  }
  started_.clear();
}

void Communicator::abort(const std::string& why) {
  const std::unique_lock lock = enter();
  if (!failure_) fail({FailureKind::user, why});
}

void Communicator::refuse_if_failed() const {
  if (failure_)
    throw TransportError("rank " + std::to_string(rank()) + ": this communicator has failed and takes no more calls; " +
                         "make a new one. It failed because: " + failure_.text);
}

}  // namespace lanecast
