// SPDX-License-Identifier: Apache-2.0
// What a group makes when a call first needs it: each once, whatever threads ask.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "signals.h"

namespace lanecast_torch {

/// Made: what points to the thing, and may be null.
template <class Key, class Made>
class OnDemand {
 public:
  /// The first who asks makes it, and no lock is held meanwhile: that may wait for peers. Throws what `make` throws,
  /// and then it may be tried again; DistBackendError after end().
  Made get(const Key& key, const std::function<Made()>& make) {
    std::unique_lock lock(mutex_);
    check_lives();
    const auto [entry, is_first] = things_.try_emplace(key);
    std::promise<Made> promise;
    if (is_first) entry->second = promise.get_future().share();
    const std::shared_future<Made> thing = entry->second;
    lock.unlock();
    if (is_first) fulfil(key, make, promise);
    while (thing.wait_for(kBetweenSignals) != std::future_status::ready) Signals::hear();
    return thing.get();
  }

  /// Null where it is not made, or not yet.
  Made if_made(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = things_.find(key);
    return found != things_.end() && is_made(found->second) ? found->second.get() : nullptr;
  }

  std::vector<Made> all_made() const {
    const std::lock_guard lock(mutex_);
    std::vector<Made> made;
    for (const auto& [key, thing] : things_)
      if (is_made(thing)) made.push_back(thing.get());
    return made;
  }

  /// No more are made; those that there are. how: for people who ask for more.
  std::vector<Made> end(const char* how) {
    {
      const std::lock_guard lock(mutex_);
      ended_ = how;
    }
    return all_made();
  }

 private:
  static bool is_made(const std::shared_future<Made>& thing) {
    return thing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void check_lives() const {
    TORCH_CHECK_WITH(DistBackendError, !ended_, "lanecast: this process group has been ", ended_);
  }

  void fulfil(const Key& key, const std::function<Made()>& make, std::promise<Made>& promise) {
    try {
      Made made = make();
      const std::lock_guard lock(mutex_);
      check_lives();
      promise.set_value(std::move(made));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      things_.erase(key);
      promise.set_exception(std::current_exception());
    }
  }

  mutable std::mutex mutex_;  // guards what follows; held by nobody who waits for peers
  std::map<Key, std::shared_future<Made>> things_;
  const char* ended_ = nullptr;  // how
};

}  // namespace lanecast_torch
