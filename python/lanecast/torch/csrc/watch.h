// SPDX-License-Identifier: Apache-2.0
// What a program may want to know of a group's calls beside their results: how long they took, when each has ended, and
// when all have.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lanecast_torch {

class Watch {
 public:
  using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  /// A work that has not ended, as long as this lives.
  class Pending {
   public:
    explicit Pending(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) { watch_->count(1); }
    ~Pending() { watch_->count(-1); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    const std::shared_ptr<Watch> watch_;
  };

  /// Works that are made from now on are timed.
  void time_works() { timed_ = true; }
  bool timed() const { return timed_; }

  /// What is called for each work that has been timed and has succeeded, by one thread, in the order of their ends.
  void set_hook(Hook hook);
  std::shared_ptr<const Hook> hook();
  /// It is Python's, perhaps, which ends before this.
  void drop_hook();

  void wait_until_none_is_pending();

 private:
  void count(int change);

  std::atomic<bool> timed_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable none_;
  int pending_ = 0;
  std::shared_ptr<const Hook> hook_;
};

}  // namespace lanecast_torch
