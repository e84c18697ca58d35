// SPDX-License-Identifier: Apache-2.0
// Choices that turn out much slower than the models had predicted: found while calls are made, and told to whoever asks
// for them, so that the next measurement looks there first.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/kind.h"

namespace lanecast {

/// Calls of one collective and size class on one communicator.
struct Surprise {
  Kind kind{};
  std::size_t bytes = 0;  // of the full buffer
  std::string algorithm;
  int chunks = 1;
  double predicted_s = 0;
  double measured_s = 0;  // of the fastest of the calls in a row
};

/// What calls of one shape are to take, and how the latest ones did. The driver's own, as their execution is.
struct Expectation {
  std::int64_t most_ns = 0;  // 0: nothing is expected
  double predicted_s = 0;
  int slow_in_a_row = 0;
  std::int64_t fastest_ns = 0;  // of these
};

class Surprises {
 public:
  static constexpr double kTimes = 1.5;  // as long as predicted
  static constexpr int kInARow = 8;      // a single slow call says nothing, nor do the first, which meet cold caches

  static Expectation expecting(double predicted_s);

  /// A call has ended. `describe` gives the Surprise without its times, and is asked for seldom.
  template <class Describe>
  void judge(Expectation& expected, std::int64_t took_ns, const Describe& describe) {
    if (expected.most_ns == 0) return;
    if (took_ns <= expected.most_ns) [[likely]] {
      expected.slow_in_a_row = 0;
      return;
    }
    if (expected.slow_in_a_row++ == 0 || took_ns < expected.fastest_ns) expected.fastest_ns = took_ns;
    if (expected.slow_in_a_row == kInARow) add(expected, describe());
  }

  /// One for each collective and size class, in the order in which they were found. By any thread.
  std::vector<Surprise> found() const;

 private:
  void add(Expectation& expected, Surprise surprise);

  mutable std::mutex mutex_;  // guards found_
  std::vector<Surprise> found_;
};

}  // namespace lanecast
