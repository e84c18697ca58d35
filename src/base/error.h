// SPDX-License-Identifier: Apache-2.0
// The library's errors: one family, four kinds, told apart by who can mend them.
#pragma once

#include <stdexcept>
#include <string>

namespace lanecast {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller asked for something impossible: the message names the argument and the rank.
struct UsageError : Error {
  using Error::Error;
};

/// The machine or a library below failed: a lost peer, no memory for a segment, an MPI error.
struct TransportError : Error {
  using Error::Error;
};

/// Among them: the ranks have made different calls.
struct MismatchError : TransportError {
  using TransportError::TransportError;
};

/// Among them: a message of a collective is no such message as its receiver expects.
struct StepMismatchError : MismatchError {
  StepMismatchError(const std::string& text, int sender, bool in_same_call)
      : MismatchError(text), peer(sender), same_call(in_same_call) {}
  int peer;
  bool same_call;  // for all that the two know, they make the same one
};

/// Among them: the program has aborted the communicator while the call was under way.
struct AbortedError : TransportError {
  using TransportError::TransportError;
};

/// A deadline passed: the message says who waited for whom, in which step of which plan.
struct TimeoutError : Error {
  using Error::Error;
};

/// A promise inside the library was broken; always a bug to report.
struct InternalError : Error {
  using Error::Error;
};

}  // namespace lanecast
