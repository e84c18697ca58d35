// SPDX-License-Identifier: Apache-2.0
// Parts of a call that may fail, and what their errors are to the communicator.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/communicator/communicator.h"

namespace lanecast {

template <class Part>
void Communicator::with_reasons(const UnderWay& call, const Part& part) {
  try {
    part();
  } catch (const StepMismatchError& error) {  // a transport's, which knows the message and not the call
    look_for_reasons(call);
    if (call.title().empty()) throw;
    throw MismatchError(std::string(error.what()) + "; found in call " + std::to_string(calls_) + " of rank " +
                        std::to_string(rank()) +
                        (error.same_call ? " and of rank " + std::to_string(error.peer) : std::string()) + ", " +
                        std::string(call.title()));
  } catch (const TransportError&) {
    look_for_reasons(call);
    throw;
  }
}

template <class Before>
void Communicator::heed_at(std::int64_t now_ns, const Before& before) {
  if (now_ns - heeded_ns_ < std::chrono::nanoseconds(kLookEvery).count()) return;
  heeded_ns_ = now_ns;
  heed(before());
}

template <class Agreed, class Part>
auto Communicator::or_fail(const Part& part) {
  try {
    return part();
  } catch (const Agreed&) {
    throw;
  } catch (const std::exception& error) {
    fail(failure_of(error));
    throw;
  }
}

template <class Part>
void Communicator::or_fail(const std::shared_ptr<Execution>& call, const Part& part) {
  or_fail([&] {
    try {
      part();
    } catch (const std::exception&) {
      plans_->keep(call);
      throw;
    }
  });
}

}  // namespace lanecast
