// SPDX-License-Identifier: Apache-2.0
#include "watch.h"

#include <utility>

#include "signals.h"

namespace lanecast_torch {

void Watch::set_hook(Hook hook) {
  auto shared = std::make_shared<const Hook>(std::move(hook));  // moved: copying what is Python's needs its lock
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!hook_, "lanecast: registerOnCompletionHook: this group has a hook");
  hook_ = std::move(shared);
  timed_ = true;
}

std::shared_ptr<const Watch::Hook> Watch::hook() {
  const std::lock_guard lock(mutex_);
  return hook_;
}

void Watch::drop_hook() {
  std::shared_ptr<const Hook> last;  // let go of without the lock
  const std::lock_guard lock(mutex_);
  last = std::exchange(hook_, nullptr);
}

void Watch::wait_until_none_is_pending() {
  std::unique_lock lock(mutex_);
  while (!none_.wait_for(lock, kBetweenSignals, [this] { return pending_ == 0; })) {
    lock.unlock();
    Signals::hear();
    lock.lock();
  }
}

void Watch::count(int change) {
  const std::lock_guard lock(mutex_);
  pending_ += change;
  if (pending_ == 0) none_.notify_all();
}

}  // namespace lanecast_torch
