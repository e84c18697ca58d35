// SPDX-License-Identifier: Apache-2.0
// How far a simulation is, for whoever waits for it: lines "progress: DONE of ALL" on the error stream.
#pragma once

#include <chrono>
#include <cstddef>

namespace lanecast::simulator {

class Progress {
 public:
  void begin(std::size_t messages) { all_ = messages; }
  /// One message more.
  void note();

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t done_ = 0, all_ = 0;
  Clock::time_point said_ = Clock::now();
};

}  // namespace lanecast::simulator
