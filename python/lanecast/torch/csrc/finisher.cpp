// SPDX-License-Identifier: Apache-2.0
#include "finisher.h"

#include <base/endless_wait.h>
#include <base/quiet_thread.h>

#include "of_this_process.h"

namespace lanecast_torch {

Finisher& Finisher::instance() { return of_this_process<Finisher>(); }

void Finisher::push(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (static_cast<std::size_t>(idle_) < jobs_.size() && threads_ < kThreads) {
    lanecast::quiet_thread([this] { run(); }).detach();
    ++threads_;
  }
  pushed_.notify_one();
}

void Finisher::drain(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex_);
  idled_.wait_for(lock, grace, [this] { return jobs_.empty() && idle_ == threads_; });
}

void Finisher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    idled_.notify_all();
    lanecast::wait_without_end(pushed_, lock, [this] { return !jobs_.empty(); });
    --idle_;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds is let go of without the lock
    lock.lock();
  }
}

}  // namespace lanecast_torch
