// SPDX-License-Identifier: Apache-2.0
// How to wait: spin for as long as a message usually takes, then let others run, then sleep in short naps.
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace lanecast {

/// How often a wait looks at the clock, at its peers and at what the user wants.
inline constexpr auto kLookEvery = std::chrono::milliseconds(20);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Patience {
 public:
  /// crowded: more ranks than cores, so a spinning rank holds up the one it waits for.
  explicit Patience(bool crowded) : spins_(crowded ? 0 : kSpins) {}

  void reset() { idle_ = 0; }

  /// Waits a little. True now and then, when it is time to look at the clock.
  bool pause() {
    ++idle_;
    if (idle_ <= spins_) {
      relax();
      return idle_ % 1024 == 0;
    }
    if (idle_ <= spins_ + kYields) {
      sched_yield();
      return idle_ % 64 == 0;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
  }

 private:
  static constexpr unsigned kSpins = 20000;  // about half a millisecond
  static constexpr unsigned kYields = 2000;
  unsigned spins_;
  unsigned idle_ = 0;
};

}  // namespace lanecast
