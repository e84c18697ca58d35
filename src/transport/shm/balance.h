// SPDX-License-Identifier: Apache-2.0
// How much a rank sends while it receives messages of one sort: by that it knows whether a call is an exchange.
//
// All-to-alls post what they send before anything comes, so only a call as a whole tells. Of messages that ranks send
// of their own accord nobody knows which belong together; there the last few count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace lanecast::shm {

/// Bytes of one rank's messages that are worth a look.
struct Traffic {
  std::uint64_t sent = 0, received = 0;

  /// Bytes that are sent for each that is received, at most 1.
  double share() const {
    return received > 0 ? std::min(1.0, static_cast<double>(sent) / static_cast<double>(received)) : 0;
  }
};

/// The same by call, of the last few calls; and of all messages outside calls together.
class TrafficOfCalls {
 public:
  void sends(const Message& message) { of(message.stamp).sent += message.bytes; }
  void receives(const Message& message, std::size_t bytes) { of(message.stamp).received += bytes; }

  /// Null: that was long ago.
  const Traffic* find(std::uint32_t stamp) const {
    const auto found = std::ranges::find(calls_, stamp, &Call::stamp);
    return found == calls_.end() ? nullptr : &found->traffic;
  }
  const Traffic& outside() const { return outside_; }

 private:
  struct Call {
    std::uint32_t stamp = 0;
    Traffic traffic;
  };
  static constexpr std::size_t kCalls = 8;  // more are seldom under way

  Traffic& of(std::uint32_t stamp) {
    if (stamp == 0) return outside_;
    const auto found = std::ranges::find(calls_, stamp, &Call::stamp);
    if (found != calls_.end()) return found->traffic;
    oldest_ = (oldest_ + 1) % kCalls;
    calls_[oldest_] = {stamp, {}};
    return calls_[oldest_].traffic;
  }

  Traffic outside_;
  std::array<Call, kCalls> calls_;
  std::size_t oldest_ = 0;
};

class Balance {
 public:
  double share() const {
    if (stamp_ == 0) return received_ > 0 ? std::min(1.0, sent_ / received_) : 0;
    return of_last_call_ < 0 ? so_far_ : of_last_call_;
  }

  /// A message is awaited, or comes: of another call, and the one before has said all.
  void meet(const Message& message, const TrafficOfCalls& all) {
    if (message.stamp == stamp_) return;
    const Traffic* const last = stamp_ == 0 ? nullptr : all.find(stamp_);
    if (last && last->received > 0) of_last_call_ = last->share();
    stamp_ = message.stamp;
  }

  void came(const Message& message, const TrafficOfCalls& all) {
    meet(message, all);
    if (const Traffic* const call = stamp_ == 0 ? nullptr : all.find(stamp_)) so_far_ = call->share();
    if (stamp_ != 0) return;
    const Traffic now = all.outside();
    follow(sent_, now.sent - seen_.sent, message.bytes);
    follow(received_, now.received - seen_.received, message.bytes);
    seen_ = now;
  }

 private:
  /// What a message leaves of what came and left before it. Ranks may send and receive some at a time, of which all are
  /// sent when the first one comes; what was sent beyond so many has nothing to do with it.
  static constexpr double kOfLate = 0.8, kMostInBatch = 4;

  static void follow(double& of_late, std::uint64_t now, std::size_t message_bytes) {
    of_late = kOfLate * of_late + std::min(static_cast<double>(now), kMostInBatch * static_cast<double>(message_bytes));
  }

  std::uint32_t stamp_ = 0;                // of the call that is met
  double of_last_call_ = -1, so_far_ = 0;  // share of the call before it, -1: there was none; and of itself
  double sent_ = 0, received_ = 0;         // bytes outside calls, of late
  Traffic seen_;                           // outside calls, when that was last looked at
};

}  // namespace lanecast::shm
