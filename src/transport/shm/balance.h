// SPDX-License-Identifier: Apache-2.0
// How much a rank sends while it receives messages of one sort: by that it knows whether it takes part in an exchange.
//
// All-to-alls post what they send before anything comes, so only a call as a whole tells, and the last one of its kind
// tells for the next one: whoever broadcasts and exchanges in turns does both. Of messages that ranks send of their own
// accord nobody knows which belong together; there the last few count.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/transport.h"

namespace lanecast::shm {

/// Bytes that are sent for each that is received, at most 1.
inline double share_of(double sent, double received) { return received > 0 ? std::min(1.0, sent / received) : 0; }

/// Bytes of one rank's messages that are worth a look.
struct Traffic {
  std::uint64_t sent = 0, received = 0;

  double share() const { return share_of(static_cast<double>(sent), static_cast<double>(received)); }
};

/// The same by call, of the last calls; and of all messages outside calls together.
class TrafficOfCalls {
 public:
  void sends(const Message& message) { of(message.stamp).sent += message.bytes; }
  void receives(const Message& message, std::size_t bytes) { of(message.stamp).received += bytes; }

  /// Null: outside any call, or that was long ago.
  const Traffic* find(std::uint32_t stamp) const {
    const std::size_t place = stamp != 0 ? place_of(stamp) : kCalls;
    return place < kCalls ? &calls_[place].traffic : nullptr;
  }
  const Traffic& outside() const { return outside_; }

 private:
  struct TrafficOfCall {
    std::uint32_t stamp = 0;
    Traffic traffic;
  };
  // Of more that are under way at a time the first are forgotten, and taken for calls that send nothing.
  static constexpr std::size_t kCalls = 32;

  Traffic& of(std::uint32_t stamp) {
    if (stamp == 0) return outside_;
    const std::size_t known = place_of(stamp);
    if (known < kCalls) return calls_[known].traffic;
    newest_ = (newest_ + 1) % kCalls;
    calls_[newest_] = {stamp, {}};
    return calls_[newest_].traffic;
  }
  /// kCalls: nowhere. The last calls are asked for most.
  std::size_t place_of(std::uint32_t stamp) const {
    for (std::size_t age = 0; age < kCalls; ++age) {
      const std::size_t place = (newest_ + kCalls - age) % kCalls;
      if (calls_[place].stamp == stamp) return place;
    }
    return kCalls;
  }

  Traffic outside_;
  std::array<TrafficOfCall, kCalls> calls_;
  std::size_t newest_ = 0;
};

/// Of messages outside calls.
class RecentBalance {
 public:
  double share() const { return share_of(sent_, received_); }
  /// One has come, of so many bytes.
  void came(std::size_t bytes, const Traffic& now) {
    follow(sent_, now.sent - seen_.sent, bytes);
    follow(received_, now.received - seen_.received, bytes);
    seen_ = now;
  }

 private:
  /// What a message leaves of what came and left before it. Ranks may send and receive some at a time, of which all are
  /// sent when the first one comes; what was sent beyond so many has nothing to do with it.
  static constexpr double kOfLate = 0.8, kMostInBatch = 4;

  static void follow(double& of_late, std::uint64_t now, std::size_t bytes) {
    of_late = kOfLate * of_late + std::min(static_cast<double>(now), kMostInBatch * static_cast<double>(bytes));
  }

  double sent_ = 0, received_ = 0;  // bytes of late
  Traffic seen_;                    // when that was last looked at
};

class Balance {
 public:
  double share() const { return stamp_ == 0 ? outside_.share() : of_last_call_[kind_].value_or(so_far_); }

  /// A message is awaited, or comes: of another call, so what the one before has said so far counts for its kind.
  void meet(const Message& message, const TrafficOfCalls& all) {
    if (message.stamp == stamp_) return;
    const Traffic* const last = all.find(stamp_);
    if (last && last->received > 0) of_last_call_[kind_] = static_cast<float>(last->share());
    stamp_ = message.stamp;
    kind_ = message.kind ? static_cast<std::size_t>(*message.kind) : kOfNoKind;
  }

  void came(const Message& message, const TrafficOfCalls& all) {
    meet(message, all);
    if (stamp_ == 0) outside_.came(message.bytes, all.outside());
    if (const Traffic* const call = all.find(stamp_)) so_far_ = static_cast<float>(call->share());
  }

 private:
  static constexpr std::size_t kOfNoKind = static_cast<std::size_t>(Kind::composition) + 1;

  std::uint32_t stamp_ = 0;  // of the call that is met, and its kind
  std::size_t kind_ = kOfNoKind;
  float so_far_ = 0;  // its share
  std::array<std::optional<float>, kOfNoKind + 1> of_last_call_;
  RecentBalance outside_;
};

}  // namespace lanecast::shm
