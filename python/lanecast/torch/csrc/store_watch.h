// SPDX-License-Identifier: Apache-2.0
// Waiting for what other ranks write into torch's store.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace lanecast_torch {

/// Looks again and again. Store::wait() would end by its timeout alone, and keep the store from this process' other
/// threads until then. Shared by a thread that waits for signals and the one that works for it.
class StoreWatch {
 public:
  using Clock = std::chrono::steady_clock;

  StoreWatch(c10::intrusive_ptr<c10d::Store> store, int ranks);

  c10d::Store& store() { return *store_; }

  /// Waits until the key is set; false where it is not by then. `look`, if any, is called beside; may throw. Throws
  /// what the store does, and where nobody waits any more.
  bool is_set_by(Clock::time_point deadline, const std::string& key, const std::function<void()>& look = {});
  /// Nobody waits any more.
  void give_up() { given_up_ = true; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const std::chrono::microseconds longest_pause_;
  std::atomic<bool> given_up_ = false;
};

}  // namespace lanecast_torch
