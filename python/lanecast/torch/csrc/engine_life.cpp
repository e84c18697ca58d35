// SPDX-License-Identifier: Apache-2.0
// Who may use the group's communicator, and how it ends: beside other threads, and beside handlers of signals.
#include <base/endless_wait.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "engine.h"
#include "errors.h"
#include "signals.h"

namespace lanecast_torch {
namespace {

// For calls under way where a handler has interrupted a wait for one of them, or is about to: that may never end.
constexpr std::chrono::milliseconds kAfterHandler{500};
constexpr std::chrono::milliseconds kBetweenLooksAtDevice{1};

}  // namespace

Engine::Lock::Lock(Engine& engine) : engine_(engine) {
  TORCH_CHECK_WITH(DistBackendError, !engine.has_lock(), "lanecast: a signal's handler runs inside a call of this ",
                   "process group, which takes no other before that one returns; let the handler set a flag, raise, ",
                   "or call abort()");
  if (!engine.mutex_.try_lock())  // first: it does not look at the clock
    while (!engine.mutex_.try_lock_for(kBetweenSignals)) Signals::hear();
  engine.owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

Engine::Lock::~Lock() {
  engine_.owner_.store({}, std::memory_order_relaxed);
  engine_.mutex_.unlock();
}

Engine::Entry::Entry(Engine& engine) : lock_((engine.refuse_in_forked(), engine)) {
  TORCH_CHECK_WITH(DistBackendError, engine.comm_, "lanecast: this process group has been shut down");
}

void Engine::refuse_in_forked() const {
  TORCH_CHECK_WITH(DistBackendError, !is_inherited(), "lanecast: process ", getpid(), " was forked from process ",
                   process_, ", which made this process group, and cannot use it: have each process make groups of ",
                   "its own, or start it by torch.multiprocessing's \"spawn\"");
}

bool Engine::is_inside_call() {
  if (has_lock()) return true;
  const std::lock_guard counting(under_way_->mutex);
  const auto& blocking = under_way_->blocking;
  return std::find(blocking.begin(), blocking.end(), std::this_thread::get_id()) != blocking.end();
}

void Engine::abort(const std::string& reason) {
  if (is_inherited()) return;
  const lanecast::WithoutGil unlocked;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!has_lock()) lock.lock();  // else a handler's, inside a call that keeps comm_ here
  if (comm_) lanecastCommAbort(comm_, reason.c_str());
}

void Engine::abandon(lanecastWork_t started) {
  const std::lock_guard counting(under_way_->mutex);  // which its end takes before anyone hears of it
  int done = 0;
  lanecastTest(started, &done);
  if (!done) under_way_->abandoned.insert(started);
}

bool Engine::idle_by(std::chrono::steady_clock::time_point deadline, const std::function<void()>& meanwhile) {
  const auto is_late = [&] { return std::chrono::steady_clock::now() >= deadline; };
  const auto none_is_under_way = [this] {
    std::unique_lock counting(under_way_->mutex);
    return under_way_->changed.wait_for(counting, kBetweenSignals, [this] { return under_way_->calls == 0; });
  };
  while (!none_is_under_way()) {
    if (is_late()) return false;
    meanwhile();
  }
  while (!device_idle()) {
    if (is_late()) return false;
    std::this_thread::sleep_for(kBetweenLooksAtDevice);
    meanwhile();
  }
  return true;
}

void Engine::wait_until_idle() {
  Signals::Ear ear;
  while (!idle_by(std::chrono::steady_clock::now() + std::chrono::hours(1), [&] { ear.hear(); })) {
  }
}

void Engine::close(std::chrono::milliseconds grace) {
  close_when_idle(grace, [] {});
}

void Engine::close_hearing_signals(std::chrono::milliseconds grace) {
  Signals::Ear ear;
  close_when_idle(grace, [&] { ear.hear(); });
}

void Engine::close_when_idle(std::chrono::milliseconds grace, const std::function<void()>& meanwhile) {
  if (is_inherited()) return;  // it is the other process's to give back, and its locks may be held here for good
  if (is_inside_call()) return abort("a signal's handler has shut the process group down while calls were under way");
  const lanecast::WithoutGil unlocked;
  {
    const std::lock_guard counting(under_way_->mutex);
    if (Signals::in_handler() || !under_way_->abandoned.empty()) grace = std::min(grace, kAfterHandler);
  }
  if (!idle_by(std::chrono::steady_clock::now() + grace, meanwhile))
    abort("the process group was shut down while calls were under way");
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kBetweenSignals)) meanwhile();  // no call comes in any more
  {
    std::unique_lock counting(under_way_->mutex);
    lanecast::wait_without_end(under_way_->changed, counting, [this] { return under_way_->blocking.empty(); });
  }
  last_on_device_.clear();
  lanecastCommDestroy(std::exchange(comm_, nullptr));
}

}  // namespace lanecast_torch
