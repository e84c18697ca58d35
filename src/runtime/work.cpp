// SPDX-License-Identifier: Apache-2.0
#include "runtime/work.h"

#include <algorithm>

#include "runtime/communicator.h"
#include "runtime/patience.h"

namespace lanecast {

std::unique_lock<std::mutex> ProgressThread::enter() {
  const std::lock_guard first(entrance_);
  return std::unique_lock(mutex_);
}

void ProgressThread::stop(std::chrono::duration<double> grace) {
  {
    std::unique_lock lock = enter();
    idle_.wait_for(lock, grace, [this] { return active_.empty(); });
    stop_ = true;
  }
  call_made_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::add(Communicator& communicator) {
  {
    const std::unique_lock lock = enter();
    if (stop_) throw UsageError("the process is ending: no call can be started any more");
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    if (std::find(active_.begin(), active_.end(), &communicator) == active_.end()) active_.push_back(&communicator);
  }
  call_made_.notify_all();
}

void ProgressThread::remove(Communicator& communicator) {
  const std::unique_lock lock = enter();
  std::erase(active_, &communicator);
}

void ProgressThread::run() {
  Patience patience(Rivals::ranks);  // a spinning helper would take a core from the program it serves
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
    lock.unlock();
    if (moved)
      patience.reset();
    else
      patience.pause();
    lock = enter();
  }
  for (Communicator* communicator : active_) communicator->give_up_started();
}

}  // namespace lanecast
