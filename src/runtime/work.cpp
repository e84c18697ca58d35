// SPDX-License-Identifier: Apache-2.0
#include "runtime/work.h"

#include <algorithm>

#include "runtime/communicator.h"
#include "runtime/patience.h"

namespace lanecast {

void ProgressThread::stop(std::chrono::duration<double> grace) {
  {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, grace, [this] { return active_.empty(); });
    stop_ = true;
  }
  call_made_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::add(Communicator& communicator) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) throw UsageError("the process is ending: no call can be started any more");
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    if (std::find(active_.begin(), active_.end(), &communicator) == active_.end()) active_.push_back(&communicator);
  }
  call_made_.notify_all();
}

void ProgressThread::remove(Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  std::erase(active_, &communicator);
}

void ProgressThread::run() {
  Patience patience(true);  // a spinning helper would take a core from the program it serves
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (active_.empty()) {
      idle_.notify_all();
      call_made_.wait(lock);
      patience.reset();
      continue;
    }
    bool moved = false;
    for (std::size_t k = 0; k < active_.size();) {
      moved |= active_[k]->advance_started();
      if (active_[k]->has_started())
        ++k;
      else
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(k));
    }
    if (moved) {
      patience.reset();
      continue;
    }
    lock.unlock();
    patience.pause();
    lock.lock();
  }
}

}  // namespace lanecast
