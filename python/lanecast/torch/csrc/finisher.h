// SPDX-License-Identifier: Apache-2.0
// Threads that end works: what a work does when its call is done may take long, wait for other works or want Python's
// lock, and the core's thread must do none of that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace lanecast_torch {

class Finisher {
 public:
  /// The one of this process; it lives as long.
  static Finisher& instance();

  void push(std::function<void()> job);

  /// Waits up to `grace` until all jobs are done and what they held is let go of.
  void drain(std::chrono::milliseconds grace);

 private:
  // A job may wait for a later one: DDP's PowerSGD hook all-reduces in the callback of an all-reduce, and waits. Gloo
  // has two threads for each group.
  static constexpr int kThreads = 4;
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable pushed_, idled_;
  std::deque<std::function<void()>> jobs_;
  int threads_ = 0, idle_ = 0;
};

}  // namespace lanecast_torch
