// SPDX-License-Identifier: Apache-2.0
// Waits with a deadline, for the calls that ranks make before they have anything better to wait with.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/running_time.h"

namespace lanecast {

/// Until `done` returns true; calls `meanwhile` with the seconds that this process has run since the beginning, which
/// may throw. timeout_s: when it will.
template <class Done, class Meanwhile>
void wait_until(const Done& done, double timeout_s, const Meanwhile& meanwhile) {
  RunningTime ran;
  ran.look(timeout_s);
  const auto begin = RunningTime::Clock::now();
  auto nap = std::chrono::microseconds(0);
  while (!done()) {
    ran.look(timeout_s);
    meanwhile(ran.seconds_since(begin));
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
