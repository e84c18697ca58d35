// SPDX-License-Identifier: Apache-2.0
// The barrier that names who does not come, for programs that look for a rank that hangs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "store_watch.h"

namespace lanecast_torch {

/// Over the store, so that it works also where the group's calls hang or have failed. Rank 0 waits for each other one,
/// and tells all of them how it ended. A thread of ours may be in it when nobody waits for that any more.
class MonitoredBarrier {
 public:
  /// round: how many of the group's came before.
  MonitoredBarrier(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::uint64_t round)
      : watch_(std::move(store), size), rank_(rank), size_(size), round_(round) {}

  /// Raises DistBackendError: on rank 0 with the first rank that has not come within `timeout`, or with all of them,
  /// on the others with what rank 0 has told, or that it told nothing within `patience`.
  void pass(std::chrono::milliseconds timeout, std::chrono::milliseconds patience, bool name_all);
  /// Nobody waits any more.
  void give_up() { watch_.give_up(); }

 private:
  std::vector<int> missing(std::chrono::milliseconds timeout, bool name_all);
  void ask_rank_0(std::chrono::milliseconds patience);
  static std::string arrival(std::uint64_t round, int rank);
  static std::string outcome(std::uint64_t round);

  StoreWatch watch_;
  const int rank_, size_;
  const std::uint64_t round_;
};

}  // namespace lanecast_torch
