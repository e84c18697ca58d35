// SPDX-License-Identifier: Apache-2.0
// What one way of moving bytes has cost of late.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lanecast {

/// Before and after a copy of this many bytes. A long one is likely to be interrupted where ranks share a core, so that
/// only the thread's own time counts; asking for that takes 0.4 us instead of 0.02.
inline std::int64_t clock_ns(std::size_t bytes) {
  constexpr std::size_t kLong = std::size_t{256} << 10;
  timespec now{};
  clock_gettime(bytes < kLong ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Of what may sleep meanwhile.
inline std::int64_t wall_clock_ns() { return clock_ns(0); }

class Pace {
 public:
  /// Nanoseconds per byte; 0: not tried yet.
  double cost() const { return cost_; }

  void learn(std::int64_t ns, std::size_t bytes) {
    const double cost = static_cast<double>(ns) / static_cast<double>(bytes);
    // A fast copy is proof; a slow one may have been interrupted, and only a row of them counts.
    const bool proof = cost_ == 0 || cost < cost_;
    cost_ = proof ? cost : followed(cost);
  }
  /// Of what may be fast by luck, too: where a rank comes late, much is there already.
  void follow(std::int64_t ns, std::size_t bytes) {
    const double cost = static_cast<double>(ns) / static_cast<double>(bytes);
    cost_ = cost_ == 0 ? cost : followed(cost);
  }

 private:
  double followed(double cost) const { return 0.75 * cost_ + 0.25 * std::min(cost, 4 * cost_); }

  double cost_ = 0;
};

}  // namespace lanecast
