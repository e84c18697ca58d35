// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/persistent.h"

#include "runtime/communicator/bound_call.h"

namespace lanecast {

PersistentCall::PersistentCall(Communicator& communicator, const Call& call)
    : communicator_(communicator), call_(communicator.bind(call)) {}

PersistentCall::PersistentCall(Communicator& communicator, const ComposedCall& call)
    : communicator_(communicator), call_(communicator.bind(call)) {}

void PersistentCall::rebind(const void* in, void* out) { communicator_.rebind(*call_, in, out); }

std::size_t PersistentCall::scratch_bytes() const { return call_->execution->scratch_bytes(); }

const Plan& PersistentCall::plan() const { return call_->execution->plan(); }

void PersistentCall::start(const Interrupt& interrupt) { communicator_.start(call_, interrupt); }

void PersistentCall::wait(const Interrupt& interrupt) { Communicator::wait(*call_->work, interrupt); }

void PersistentCall::run(const Interrupt& interrupt) { communicator_.run(call_, interrupt); }

bool PersistentCall::done() const { return call_->work->done(); }

}  // namespace lanecast
