// SPDX-License-Identifier: Apache-2.0
// Which way a large message comes: as a stream of fragments through the ring, one copy by the sender and one by the
// receiver, or read by the receiver from the sender's memory, one copy, of which the sender makes a part where it can.
//
// Which is faster depends on where the cores and the caches lie, on the pages of both buffers, on whether the sender
// has just written its own, and on what else both ranks do meanwhile: 0.4 to 4 times the other's time on one machine.
// No trial before the first call knows these, so ranks time what comes and go by that. A rank that also sends goes by
// what its own copies take. Such ranks have to agree, too: where one of two reads and the other streams, the reader
// does three copies of four. So they take the way that the first rank of the host takes for such messages. A rank that
// only receives waits for its sender, whose copies into a ring may take longer than its own out of it: it goes by how
// long all takes, and by itself, since the first rank may be its sender.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/pace.h"
#include "transport/transport.h"

namespace lanecast::shm {

enum class ShmWay : std::uint8_t { undecided = 0, stream, read };

/// Is it long enough to be worth a choice? sums: its sender has added it up in this call.
bool is_worth_a_choice(std::size_t bytes, bool sums);
bool is_worth_a_choice(const Message& message);

constexpr std::size_t kSorts = 30;
/// Which of those behave alike: of about one length, and first or later between two ranks in a call; of the latter,
/// what may be sums and what was only moved.
std::size_t sort_of(const Message& message);

/// What a rank lets the others of its host read.
struct WayBoard {
  std::array<std::atomic<ShmWay>, kSorts> ways;  // its last choices
};

/// Nanoseconds that a message took its receiver.
struct Took {
  std::int64_t copies;    // its own
  std::int64_t all;       // by the wall clock, until the last byte was there: Ways::ended()
  std::size_t all_bytes;  // that came meanwhile; the others were there when the clock began
};

/// One rank's choices, and what they go by. Used by one thread at a time.
class Ways {
 public:
  /// `first`: of the first rank on the host, null on that rank itself.
  Ways(WayBoard& mine, const WayBoard* first) : mine_(mine), first_(first) {}

  /// For a message that is worth one, and may be read.
  ShmWay choose(const Message& message);
  /// Are its copies worth a look at the clock each?
  bool wants_time(const Message& message) const;
  struct TimeShare {
    std::int64_t ns;
    bool from_first;  // of its bytes
  };
  /// By the wall clock, what a message has taken that has just come whole: since its first bytes, or since another came
  /// whole that came beside it.
  TimeShare ended(std::int64_t begun_ns);

  void sends(std::size_t bytes) { sent_bytes_ += bytes; }
  void receives(std::size_t bytes) { received_bytes_ += bytes; }
  // A message worth a choice, for which no outbox was used, has left or come; `ns`, `took`: where this rank has looked
  // at the clock.
  void sent(const Message& message, std::int64_t ns) { of(message).habit().copies_in.learn(ns, message.bytes); }
  /// declined: it was to be read.
  void streamed(const Message& message, bool declined, std::optional<Took> took);
  /// Of `bytes` of it, which this rank has copied; its sender the others.
  void read(const Message& message, std::size_t bytes, std::optional<Took> took);
  /// At the sender: its receiver has copied the others.
  void written(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns);

 private:
  /// What this rank copies of messages that are read, as their receiver or as their sender.
  struct ReadShare {
    double share;  // of a message, of late
    Pace pace = {};

    double cost() const { return share * pace.cost(); }
    void learn(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns);
  };
  /// Messages of one sender's that came either way.
  struct Tried {
    std::size_t streamed = 0, read = 0;
  };
  struct Habit {
    Pace copies_in, copies_out;
    ReadShare reads{1}, writes{0};
    Pace all_streamed, all_read;
    std::map<int, Tried> tried;  // by sender
    std::size_t messages = 0;    // that came
    std::size_t since_retry = 0;
    bool retries = false;  // the worse way, now
    ShmWay retried = ShmWay::undecided;
    std::size_t row_left = 0;  // messages that are still to come that way
  };
  /// How much a rank sends while such messages come.
  struct Balance {
    double sent = 0, received = 0;                     // bytes of late
    std::uint64_t sent_bytes = 0, received_bytes = 0;  // the rank's when that was last looked at

    /// Bytes that are sent for each that is received, at most 1.
    double share() const { return received > 0 ? std::min(1.0, sent / received) : 0; }
  };
  struct Costs {
    double stream, read;  // ns a byte of a message that is received
  };
  /// What a rank knows of a sort of messages. Times of a rank that only receives stand apart from those of one that
  /// also sends.
  struct Sort {
    Balance balance;
    Habit receiving, exchanging;

    bool sends_too() const;
    const Habit& habit() const { return sends_too() ? exchanging : receiving; }
    Habit& habit() { return sends_too() ? exchanging : receiving; }
    Costs costs() const;
  };
  Sort& of(const Message& message) { return sorts_[sort_of(message)]; }
  static ShmWay next_way(Sort& sort, const Message& message);
  void came(Sort& sort, const Message& message, ShmWay asked);

  WayBoard& mine_;
  const WayBoard* const first_;
  std::uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  std::int64_t last_end_ns_ = 0;
  std::array<Sort, kSorts> sorts_;
};

}  // namespace lanecast::shm
