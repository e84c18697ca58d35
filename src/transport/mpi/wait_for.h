// SPDX-License-Identifier: Apache-2.0
// Waits with a deadline, for the calls that ranks make before they have anything better to wait with.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace lanecast {

/// Until `done` returns true; calls `meanwhile` with the seconds since the beginning, which may throw.
template <class Done, class Meanwhile>
void wait_until(const Done& done, const Meanwhile& meanwhile) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto nap = std::chrono::microseconds(0);
  while (!done()) {
    meanwhile(std::chrono::duration<double>(Clock::now() - begin).count());
    std::this_thread::sleep_for(nap);  // first only lets others run; ranks may outnumber cores
    nap = std::min(nap + std::chrono::microseconds(1), std::chrono::microseconds(200));
  }
}

inline std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace lanecast
