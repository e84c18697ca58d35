// SPDX-License-Identifier: Apache-2.0
// A thread that asks again and again whether something is over, where nobody else tells: works on a GPU end without a
// word. It exists from the first time that somebody wants to know.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

namespace lanecast_torch {

class Watcher {
 public:
  /// The one of this process; it lives as long.
  static Watcher& instance();

  /// Calls it, each time after those that were added before, until it returns true. It must not throw.
  void add(std::function<bool()> over);

  /// The same of what a GPU is asked, beside what other threads capture.
  void add_of_gpu(std::function<bool()> over);

  /// Waits up to `grace` until all are over.
  void drain(std::chrono::milliseconds grace);

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable added_, idled_;
  std::list<std::function<bool()>> new_;
  bool running_ = false, idle_ = true, beside_captures_ = false;
};

}  // namespace lanecast_torch
