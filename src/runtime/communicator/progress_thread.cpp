// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/progress_thread.h"

#include <algorithm>

#include "base/endless_wait.h"
#include "base/error.h"
#include "base/quiet_thread.h"
#include "base/running_time.h"

namespace lanecast {
namespace {

// Of a thread that has to look for what a device begins.
constexpr int kNapShare = 64;  // of the time since something moved
constexpr auto kShortestNap = std::chrono::microseconds(50), kLongestNap = std::chrono::microseconds(1000);

}  // namespace

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
    wait_while_running(sleeper_->idle, lock, grace, [this] { return active_.empty() || listens_; });
    stop_ = true;
  }
  sleeper_->call_made.notify_all();
  if (sleeper_->thread.joinable()) sleeper_->thread.join();
}

void ProgressThread::add(Moved& moved) {
  {
    // Relaxed: only the thread finds its own id, and it holds mutex_ while it drives.
    const bool own = thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    const Lock lock = own ? Lock() : enter_unless_stuck(moved.rank());
    if (stop_) throw UsageError("the process is ending: no call can be started any more");
    if (!sleeper_->thread.joinable()) sleeper_->thread = quiet_thread([this] { run(); });
    if (std::find(active_.begin(), active_.end(), &moved) == active_.end()) {
      sleeper_->watch.add(moved.watched());  // first, since it may start a thread, which may fail
      active_.push_back(&moved);
    }
    moved.is_moved = true;
    listens_ = false;
  }
  sleeper_->call_made.notify_all();
}

void ProgressThread::remove(Moved& moved) {
  const Lock lock = enter();
  std::erase(active_, &moved);
  sleeper_->watch.remove(moved.watched());
}

bool ProgressThread::is_first(const std::string& words) {
  const std::lock_guard lock(said_mutex_);
  return said_.insert(words).second;
}

ThreadWork ProgressThread::work_of(Moved& moved) {
  if (const ThreadWork work = moved.work(); work != ThreadWork::none) return work;
  moved.is_moved = false;  // before the last look: whoever starts a call later hands it over again
  const ThreadWork work = moved.work();
  if (work != ThreadWork::none) moved.is_moved = true;
  return work;
}

void ProgressThread::pause(Lock& lock, bool listens) {
  if (!listens || !patience_.naps()) {
    lock.unlock();
    patience_.pause();
  } else {
    // No word comes from a device, so somebody has to look. The longer nothing has come, the later what comes is seen,
    // by a part of that time.
    const auto since = std::chrono::steady_clock::now() - moved_;
    const auto nap = std::clamp<std::chrono::steady_clock::duration>(since / kNapShare, kShortestNap, kLongestNap);
    naps_.store(true, std::memory_order_relaxed);
    sleeper_->call_made.wait_for(lock, nap);
    naps_.store(false, std::memory_order_relaxed);
    lock.unlock();
  }
  lock = enter();
}

void ProgressThread::run() {
  Watch& watch = sleeper_->watch;
  Lock lock(mutex_);
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);  // see add()
  while (!stop_) {
    if (active_.empty()) {
      sleeper_->idle.notify_all();
      wait_without_end(sleeper_->call_made, lock);
      patience_.reset();
      continue;
    }
    bool any = false, listens = true;
    for (std::size_t k = 0; k < active_.size();) {
      Moved& each = *active_[k];
      watch.drives(&each.watched());
      any |= each.advance();
      const ThreadWork work = work_of(each);
      listens &= work != ThreadWork::some;
      if (work == ThreadWork::none) {
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(k));
        watch.remove(each.watched());
      } else {
        ++k;
      }
    }
    watch.drives(nullptr);
    listens_ = listens;
    if (listens) sleeper_->idle.notify_all();
    if (any) {
      patience_.reset();
      if (listens) moved_ = std::chrono::steady_clock::now();
      lock.unlock();
      lock = enter();
    } else {
      pause(lock, listens);
    }
  }
  for (Moved* each : active_) {
    watch.remove(each->watched());
    each->is_moved = false;  // as in lets_go()
    each->give_up();
  }
}

}  // namespace lanecast
