// SPDX-License-Identifier: Apache-2.0
// Why a rank has given up: what it tells its peers, so that theirs is the same kind of error.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace lanecast {

enum class FailureKind : std::uint32_t {  // it travels between processes
  none = 0,
  timeout,   // a deadline passed
  lost,      // a peer has gone without a word
  mismatch,  // the ranks have made different calls
  user,      // aborted, interrupted or destroyed by the program
  machine,   // the machine or a library below failed
};

struct Failure {
  FailureKind kind = FailureKind::none;
  std::string text;

  explicit operator bool() const { return kind != FailureKind::none; }
};

/// An abort is the user's, and any exception but those of our own family: Ctrl-C, or an error in a signal handler.
Failure failure_of(const std::exception& error);

/// Throws it as the error of its kind.
[[noreturn]] void raise(const Failure& failure);

}  // namespace lanecast
