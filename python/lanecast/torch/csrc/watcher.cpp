// SPDX-License-Identifier: Apache-2.0
#include "watcher.h"

#include <base/endless_wait.h>
#include <base/quiet_thread.h>
#include <c10/util/Exception.h>
#include <lanecast/lanecast.h>

#include <utility>

#include "of_this_process.h"

namespace lanecast_torch {
namespace {

constexpr std::chrono::microseconds kBetweenRounds{200};

}  // namespace

Watcher& Watcher::instance() { return of_this_process<Watcher>(); }

void Watcher::add(std::function<bool()> over) {
  const std::lock_guard lock(mutex_);
  new_.push_back(std::move(over));
  idle_ = false;
  if (!std::exchange(running_, true)) lanecast::quiet_thread([this] { run(); }).detach();
  added_.notify_one();
}

void Watcher::add_of_gpu(std::function<bool()> over) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    is_first = !std::exchange(beside_captures_, true);
  }
  if (is_first)
    add([] {
      lanecastError_t error{};
      if (lanecastThreadBesideCaptures(&error) != lanecastSuccess) TORCH_WARN("lanecast: ", error.text);
      return true;
    });
  add(std::move(over));
}

void Watcher::drain(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex_);
  idled_.wait_for(lock, grace, [this] { return idle_; });
}

void Watcher::run() {
  std::list<std::function<bool()>> watched;
  std::unique_lock lock(mutex_);
  while (true) {
    if (watched.empty() && new_.empty()) {
      idle_ = true;
      idled_.notify_all();
      lanecast::wait_without_end(added_, lock, [this] { return !new_.empty(); });
    } else if (new_.empty()) {
      added_.wait_for(lock, kBetweenRounds);
    }
    watched.splice(watched.end(), new_);
    lock.unlock();
    watched.remove_if([](const auto& over) { return over(); });  // what one holds is let go of here, without the lock
    lock.lock();
  }
}

}  // namespace lanecast_torch
