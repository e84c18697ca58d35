// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/persistent.h"

#include "runtime/communicator/started.h"

namespace lanecast {

PersistentCall::PersistentCall(Communicator& communicator, const Call& call) : communicator_(communicator) {
  const std::unique_lock lock = communicator.gate_.enter();
  call_ = communicator.bind(call);
  call_->work->finish(nullptr);
}

PersistentCall::PersistentCall(Communicator& communicator, const ComposedCall& call)
    : communicator_(communicator), call_(communicator.bind(call)) {
  call_->work->finish(nullptr);
}

std::size_t PersistentCall::scratch_bytes() const { return call_->execution->scratch_bytes(); }

const Plan& PersistentCall::plan() const { return call_->execution->plan(); }

void PersistentCall::start(const Interrupt& interrupt) { communicator_.start(call_, interrupt); }

void PersistentCall::wait(const Interrupt& interrupt) { Communicator::wait(*call_->work, interrupt); }

void PersistentCall::run(const Interrupt& interrupt) { communicator_.run(call_, interrupt); }

bool PersistentCall::done() const { return call_->work->done(); }

}  // namespace lanecast
