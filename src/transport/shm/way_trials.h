// SPDX-License-Identifier: Apache-2.0
// Which of two ways is tried when, and what each has cost: each in a row of messages first, then the worse one now and
// then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/pace.h"

namespace lanecast::shm {

enum class ShmWay : std::uint8_t { undecided = 0, stream, read };

class WayTrials {
 public:
  /// `row`: messages; `stream`, `read`: what they cost, 0 where that is not known.
  ShmWay next(std::size_t row, double stream, double read) {
    if (streamed_ < row) return ShmWay::stream;
    if (read_ < row) return ShmWay::read;  // the sender may decline
    const bool known = stream > 0 && read > 0;
    const ShmWay better = known && read < stream ? ShmWay::read : ShmWay::stream;
    if (row_left_ == 0) {
      const double ratio = known ? std::max(read, stream) / std::min(read, stream) : 1;
      if (static_cast<double>(++since_retry_) > kRowsToRetry * ratio * static_cast<double>(row)) {
        retried_ = better == ShmWay::read ? ShmWay::stream : ShmWay::read;
        row_left_ = row;
        since_retry_ = 0;
      }
    }
    retries_ = row_left_ > 0;
    if (!retries_) return better;
    --row_left_;
    return retried_;
  }
  /// Also for a rank that takes another's choices, which may try one way alone.
  bool are_under_way(std::size_t row) const { return retries_ || messages() < 2 * row; }
  std::size_t messages() const { return streamed_ + read_; }  // that came
  /// A message that was to come that way, also where its sender has declined.
  void came(ShmWay asked) { ++(asked == ShmWay::read ? read_ : streamed_); }

 private:
  static constexpr double kRowsToRetry = 32;  // such rows, times how much longer the worse way takes

  std::size_t streamed_ = 0, read_ = 0, since_retry_ = 0;
  bool retries_ = false;  // the worse way, now
  ShmWay retried_ = ShmWay::undecided;
  std::size_t row_left_ = 0;  // messages that are still to come that way
};

/// What copies from or to several peers have cost of late: the mean of each peer's, since a copy that was fast is proof
/// of what its own peer's memory costs, and not of what a far one's does.
class PeerPaces {
 public:
  double cost() const { return paces_.empty() ? 0 : sum_ / static_cast<double>(paces_.size()); }
  void learn(int peer, std::int64_t ns, std::size_t bytes) {
    Pace& pace = paces_[peer];
    sum_ -= pace.cost();
    pace.learn(ns, bytes);
    sum_ += pace.cost();
  }

 private:
  std::map<int, Pace> paces_;
  double sum_ = 0;
};

/// What belongs to one message of the wall clock's time, where several come beside each other.
struct TimeShare {
  std::int64_t ns;
  std::size_t bytes;     // that came meanwhile; others were there when the clock began
  std::uint64_t period;  // in which such messages overlapped; a new number for each
};

/// What one way has cost of late by the wall clock. A single message's share says how messages lie to each other, and
/// not what they cost: the first to end has nearly all of a period, the others have nearly none.
class PeriodPace {
 public:
  double cost() const {
    return pace_.cost() > 0 || bytes_ == 0 ? pace_.cost() : static_cast<double>(ns_) / static_cast<double>(bytes_);
  }
  void learn(const TimeShare& share) {
    if (share.period != period_ && bytes_ > 0) {
      pace_.follow(ns_, bytes_);
      ns_ = 0;
      bytes_ = 0;
    }
    period_ = share.period;
    ns_ += share.ns;
    bytes_ += share.bytes;
  }

 private:
  Pace pace_;  // of ended periods
  std::uint64_t period_ = 0;
  std::int64_t ns_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace lanecast::shm
