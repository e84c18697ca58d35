// SPDX-License-Identifier: Apache-2.0
// How to wait: spin for as long as a message usually takes, then let others run, then sleep in short naps.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace lanecast {

/// How often a wait looks at the clock, at its peers and at what the user wants.
inline constexpr auto kLookEvery = std::chrono::milliseconds(20);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Who else wants the core of a rank that waits.
enum class Rivals : std::uint8_t {
  none,
  ranks,              // more than there are cores: a spinning rank holds up the one it waits for
  ranks_and_network,  // between hosts as well: ranks that yield in turns hold up what the kernel has brought to one
};

class Patience {
 public:
  explicit Patience(Rivals rivals)
      : spins_(rivals == Rivals::none ? kSpins : 0),
        yields_(rivals == Rivals::ranks_and_network ? kYieldsBesideNetwork : kYields) {}

  void reset() { idle_ = 0; }
  /// Would pause() sleep from here on?
  bool naps() const { return idle_ > spins_ + yields_; }

  /// Waits a little. True now and then, when it is time to look at the clock.
  bool pause() {
    ++idle_;
    if (idle_ <= spins_) {
      relax();
      return idle_ % 1024 == 0;
    }
    if (idle_ <= spins_ + yields_) {
      sched_yield();
      return idle_ % 64 == 0;
    }
    // A library takes what the network has brought in pieces, of 64 KiB for UCX over TCP: one for each nap would hold
    // up a long message.
    if (idle_ % kLooksAfterNap != 0) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
  }

 private:
  static constexpr unsigned kSpins = 20000;  // about half a millisecond
  static constexpr unsigned kYields = 2000;
  static constexpr unsigned kLooksAfterNap = 16;
  // Of 8, 32 and 100 none was better, between 4 emulated hosts of 2 ranks on 2 cores; 2000 took up to a tenth longer.
  static constexpr unsigned kYieldsBesideNetwork = 32;
  unsigned spins_, yields_;
  unsigned idle_ = 0;
};

}  // namespace lanecast
