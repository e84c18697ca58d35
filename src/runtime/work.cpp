// SPDX-License-Identifier: Apache-2.0
#include "runtime/work.h"

#include <algorithm>

#include "base/quiet_thread.h"
#include "base/running_time.h"
#include "runtime/communicator.h"
#include "runtime/patience.h"

namespace lanecast {

std::unique_lock<std::mutex> ProgressThread::enter() {
  const std::lock_guard first(entrance_);
  return std::unique_lock(mutex_);
}

void ProgressThread::stop(std::chrono::duration<double> grace) {
  if (!process_.here()) {  // the thread is not here, and what it sleeps on would wait for it for ever
    static_cast<void>(sleeper_.release());
    return;
  }
  {
    std::unique_lock lock = enter();
    wait_while_running(sleeper_->idle, lock, grace, [this] { return active_.empty(); });
    stop_ = true;
  }
  sleeper_->call_made.notify_all();
  if (sleeper_->thread.joinable()) sleeper_->thread.join();
}

void ProgressThread::add(Communicator& communicator) {
  {
    // Relaxed: only the thread finds its own id, and it holds mutex_ while it drives.
    const bool own = thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    const std::unique_lock lock = own ? std::unique_lock<std::mutex>() : enter();
    if (stop_) throw UsageError("the process is ending: no call can be started any more");
    if (!sleeper_->thread.joinable()) sleeper_->thread = quiet_thread([this] { run(); });
    if (std::find(active_.begin(), active_.end(), &communicator) == active_.end()) active_.push_back(&communicator);
    communicator.is_moved_ = true;
  }
  sleeper_->call_made.notify_all();
}

void ProgressThread::remove(Communicator& communicator) {
  const std::unique_lock lock = enter();
  std::erase(active_, &communicator);
}

bool ProgressThread::lets_go(Communicator& communicator) {
  if (communicator.has_started()) return false;
  communicator.is_moved_ = false;  // before the last look: whoever starts a call later hands it over again
  if (!communicator.has_started()) return true;
  communicator.is_moved_ = true;
  return false;
}

void ProgressThread::run() {
  Patience patience(Rivals::ranks);  // a spinning helper would take a core from the program it serves
  std::unique_lock lock(mutex_);
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);  // see add()
  while (!stop_) {
    if (active_.empty()) {
      sleeper_->idle.notify_all();
      sleeper_->call_made.wait(lock);
      patience.reset();
      continue;
    }
    bool moved = false;
    for (std::size_t k = 0; k < active_.size();) {
      moved |= active_[k]->advance_started();
      if (lets_go(*active_[k]))
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(k));
      else
        ++k;
    }
    lock.unlock();
    if (moved)
      patience.reset();
    else
      patience.pause();
    lock = enter();
  }
  for (Communicator* communicator : active_) {
    communicator->is_moved_ = false;  // as in lets_go()
    communicator->give_up_started();
  }
}

}  // namespace lanecast
