// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/progress_thread.h"

#include <algorithm>

#include "base/quiet_thread.h"
#include "base/running_time.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/shown.h"
#include "runtime/watch/patience.h"

namespace lanecast {

ProgressThread::Lock ProgressThread::enter() {
  const std::lock_guard first(entrance_);
  return Lock(mutex_);
}

ProgressThread::Lock ProgressThread::enter_unless_stuck(int rank) {
  const auto take = [&](Lock lock) {
    while (!lock.owns_lock() && !lock.try_lock_until(std::chrono::system_clock::now() + kLookEvery))
      if (sleeper_->watch.is_stuck())
        throw TimeoutError("rank " + std::to_string(rank) +
                           ": no call can be started: a library below keeps the thread that would "
                           "move it, and has for the whole deadline of another call, whose error names it");
    return lock;
  };
  const Lock first = take(Lock(entrance_, std::try_to_lock));
  return take(Lock(mutex_, std::try_to_lock));
}

void ProgressThread::stop(std::chrono::duration<double> grace) {
  if (!process_.here()) {  // the thread is not here, and what it sleeps on would wait for it for ever
    static_cast<void>(sleeper_.release());
    return;
  }
  {
    Lock lock = enter();
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
    const Lock lock = own ? Lock() : enter_unless_stuck(communicator.rank());
    if (stop_) throw UsageError("the process is ending: no call can be started any more");
    if (!sleeper_->thread.joinable()) sleeper_->thread = quiet_thread([this] { run(); });
    if (std::find(active_.begin(), active_.end(), &communicator) == active_.end()) {
      active_.push_back(&communicator);
      sleeper_->watch.add(communicator.ground_.shown);
    }
    communicator.is_moved_ = true;
  }
  sleeper_->call_made.notify_all();
}

void ProgressThread::remove(Communicator& communicator) {
  const Lock lock = enter();
  std::erase(active_, &communicator);
  sleeper_->watch.remove(communicator.ground_.shown);
}

bool ProgressThread::is_first(const std::string& words) {
  const std::lock_guard lock(said_mutex_);
  return said_.insert(words).second;
}

bool ProgressThread::lets_go(Communicator& communicator) {
  if (communicator.has_started()) return false;
  communicator.is_moved_ = false;  // before the last look: whoever starts a call later hands it over again
  if (!communicator.has_started()) return true;
  communicator.is_moved_ = true;
  return false;
}

void ProgressThread::run() {
  Watch& watch = sleeper_->watch;
  Patience patience(Rivals::ranks);  // a spinning helper would take a core from the program it serves
  Lock lock(mutex_);
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
      Communicator& communicator = *active_[k];
      watch.drives(&communicator.ground_.shown);
      moved |= communicator.advance_started();
      if (lets_go(communicator)) {
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(k));
        watch.remove(communicator.ground_.shown);
      } else {
        ++k;
      }
    }
    watch.drives(nullptr);
    lock.unlock();
    if (moved)
      patience.reset();
    else
      patience.pause();
    lock = enter();
  }
  for (Communicator* communicator : active_) {
    watch.remove(communicator->ground_.shown);
    communicator->is_moved_ = false;  // as in lets_go()
    communicator->give_up_started();
  }
}

}  // namespace lanecast
