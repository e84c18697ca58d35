// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/surprises.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lanecast {

Expectation Surprises::expecting(double predicted_s) {
  // At least one, since 0 stands for no expectation; a prediction beyond hours is never exceeded.
  const double most_ns = std::clamp(predicted_s * kTimes * 1e9, 1.0, 1e15);
  return {.most_ns = std::llround(most_ns), .predicted_s = predicted_s};
}

void Surprises::add(Expectation& expected, Surprise surprise) {
  expected.most_ns = 0;  // once is enough
  surprise.predicted_s = expected.predicted_s;
  surprise.measured_s = static_cast<double>(expected.fastest_ns) * 1e-9;
  const auto size_class = [](const Surprise& one) { return std::bit_width(one.bytes); };
  const std::lock_guard lock(mutex_);
  const bool known = std::ranges::any_of(found_, [&](const Surprise& other) {
    return other.kind == surprise.kind && size_class(other) == size_class(surprise);
  });
  if (!known) found_.push_back(std::move(surprise));
}

std::vector<Surprise> Surprises::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace lanecast
