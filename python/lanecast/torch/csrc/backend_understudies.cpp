// SPDX-License-Identifier: Apache-2.0
// The backends that take what this one is not built for.
#include <utility>

#include "backend.h"
#include "signals.h"

namespace lanecast_torch {
namespace {

bool is_made(const std::shared_future<BackendPtr>& other) {
  return other.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

std::vector<BackendPtr> Backend::end_understudies(const char* how) {
  const std::lock_guard lock(understudies_mutex_);
  ended_ = how;
  std::vector<BackendPtr> made;
  for (const auto& [name, other] : understudies_)
    if (is_made(other)) made.push_back(other.get());
  return made;
}

BackendPtr Backend::understudy_if_made(const std::string& name) {
  const std::lock_guard lock(understudies_mutex_);
  const auto found = understudies_.find(name);
  return found != understudies_.end() && is_made(found->second) ? found->second.get() : nullptr;
}

c10d::Backend& Backend::understudy(const std::string& name) {
  const auto check_lives = [this] {
    TORCH_CHECK_WITH(DistBackendError, !ended_, "lanecast: this process group has been ", ended_);
  };
  std::unique_lock lock(understudies_mutex_);
  check_lives();
  std::promise<BackendPtr> promise;
  const auto [entry, is_first] = understudies_.try_emplace(name);
  if (is_first) entry->second = promise.get_future().share();
  const std::shared_future<BackendPtr> other = entry->second;
  lock.unlock();
  if (is_first) {
    try {
      BackendPtr made = helpers_.make_understudy(name, store_, getRank(), getSize(), options_->timeout);
      lock.lock();
      check_lives();
      promise.set_value(std::move(made));
    } catch (...) {
      if (!lock) lock.lock();
      understudies_.erase(name);  // it may be tried again
      promise.set_exception(std::current_exception());
    }
    lock.unlock();
  }
  while (other.wait_for(kBetweenSignals) != std::future_status::ready) Signals::hear();
  return *other.get();
}

}  // namespace lanecast_torch
