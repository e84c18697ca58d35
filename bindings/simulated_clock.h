// SPDX-License-Identifier: Apache-2.0
// Time that passes only while all ranks wait: how long calls take on links of known speed, whatever else the machine
// does. For tests.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

namespace lanecast {

/// Shared by ranks that are threads. What they compute takes no time.
class SimulatedClock {
 public:
  using Time = std::chrono::nanoseconds;  // since the beginning

  explicit SimulatedClock(int ranks) : ranks_(ranks) {}

  Time now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

  /// As a program reads it, to whom a reading takes a little, so that no call takes no time at all.
  double read_s() {
    const std::lock_guard lock(mutex_);
    return std::chrono::duration<double>(now_ + ++readings_ * kReading).count();
  }

  /// Something will happen on a rank then, and has happened.
  void expect(int rank, Time at) {
    const std::lock_guard lock(mutex_);
    expected_.emplace(at, rank);
    stir(rank);
  }
  void happened(int rank, Time at) {
    const std::lock_guard lock(mutex_);
    expected_.erase(expected_.find({at, rank}));
  }

  /// A rank may have something to do now.
  void works(int rank) {
    const std::lock_guard lock(mutex_);
    stir(rank);
  }

  /// A rank has found nothing to do. Time goes on to what happens next when that is true of all; until then the rank
  /// waits, if it has looked again and again.
  void waits(int rank) {
    std::unique_lock lock(mutex_);
    Rank& own = ranks_.at(rank);
    if (++own.idle < kLooks) return;
    const bool all = std::ranges::all_of(ranks_, [](const Rank& each) { return each.gone || each.idle >= kLooks; });
    if (all && !expected_.empty() && expected_.begin()->first > now_) {
      now_ = expected_.begin()->first;
      for (const auto& [at, other] : expected_)
        if (at == now_) stir(other);
    }
    const std::uint64_t turn = own.turn;
    if (own.idle > 0) own.stirred.wait_for(lock, kLookEvery, [&] { return own.turn != turn; });
  }

  void joins(int rank) {
    const std::lock_guard lock(mutex_);
    ++ranks_.at(rank).transports;
  }
  void leaves(int rank) {
    const std::lock_guard lock(mutex_);
    Rank& own = ranks_.at(rank);
    own.gone = --own.transports == 0;
  }

 private:
  struct Rank {
    int transports = 0;
    int idle = 0;  // looks in a row that found nothing to do
    bool gone = false;
    std::uint64_t turn = 0;
    std::condition_variable stirred;
  };
  // After the first a call may run steps of its own. Each further one lets a crowded processor go.
  static constexpr int kLooks = 2;
  static constexpr auto kLookEvery = std::chrono::milliseconds(5);  // at peers and deadlines
  static constexpr auto kReading = std::chrono::nanoseconds(100);

  void stir(int rank) {
    Rank& own = ranks_.at(rank);
    own.idle = 0;
    ++own.turn;
    own.stirred.notify_one();
  }

  mutable std::mutex mutex_;  // guards what follows
  std::deque<Rank> ranks_;
  std::multiset<std::pair<Time, int>> expected_;  // when, and on which rank
  Time now_{};
  std::int64_t readings_ = 0;
};

}  // namespace lanecast
