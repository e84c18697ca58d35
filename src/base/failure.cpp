// SPDX-License-Identifier: Apache-2.0
#include "base/failure.h"

#include "base/error.h"

namespace lanecast {

Failure failure_of(const std::exception& error) {
  FailureKind kind = FailureKind::user;
  if (dynamic_cast<const TimeoutError*>(&error))
    kind = FailureKind::timeout;
  else if (dynamic_cast<const MismatchError*>(&error))
    kind = FailureKind::mismatch;
  else if (dynamic_cast<const AbortedError*>(&error))
    kind = FailureKind::user;
  else if (dynamic_cast<const Error*>(&error))
    kind = FailureKind::machine;
  return {kind, error.what()};
}

void raise(const Failure& failure) {
  if (failure.kind == FailureKind::timeout) throw TimeoutError(failure.text);
  if (failure.kind == FailureKind::mismatch) throw MismatchError(failure.text);
  throw TransportError(failure.text);
}

}  // namespace lanecast
