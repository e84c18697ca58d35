// SPDX-License-Identifier: Apache-2.0
// What waits for another thread or process leaves the cores to it.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace gpu_host {

/// Of one wait, which makes it no more than a sixteenth longer. Few turns end by a yield: on a busy machine that lasts
/// as long as all others want to run, while who has slept goes on at once.
class Patience {
 public:
  void wait() {
    if (yields_ < kYields) {
      ++yields_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min<std::chrono::nanoseconds>(sleep_ + sleep_ / 16, std::chrono::milliseconds(2));
  }

 private:
  static constexpr int kYields = 4;
  int yields_ = 0;
  std::chrono::nanoseconds sleep_ = std::chrono::microseconds(50);
};

}  // namespace gpu_host
