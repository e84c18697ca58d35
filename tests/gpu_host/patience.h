// SPDX-License-Identifier: Apache-2.0
// What waits for another thread or process leaves the cores to it.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace gpu_host {

/// It makes a wait longer by a sixteenth, and some 0.1 ms, at most. Few turns end by a yield: on a busy machine that
/// lasts as long as all others want to run, while who has slept goes on at once.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds longest = std::chrono::milliseconds(2)) : longest_(longest) {}

  void wait() {
    if (yields_ < kYields) {
      ++yields_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ + sleep_ / 16, longest_);
  }
  /// What was waited for has come.
  void end() { *this = Patience(longest_); }

 private:
  static constexpr int kYields = 4;
  int yields_ = 0;
  std::chrono::nanoseconds sleep_ = std::chrono::microseconds(50), longest_;
};

}  // namespace gpu_host
