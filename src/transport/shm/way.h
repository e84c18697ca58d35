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
#include "transport/shm/balance.h"
#include "transport/shm/way_trials.h"
#include "transport/transport.h"

namespace lanecast::shm {

/// Is it long enough to be worth a choice? sums: its sender has added it up in this call.
bool is_worth_a_choice(std::size_t bytes, bool sums);
bool is_worth_a_choice(const Message& message);

/// May its sender, if it is short enough to leave unasked, rather have it read? Not what two ranks exchange of their
/// own accord: who sends before it receives there goes on as soon as a short message has left. And not what is added.
bool may_be_read_unasked(const Message& message);

constexpr std::size_t kSorts = 39;
/// Which of those behave alike: of about one length, and first or later between two ranks in a call; of the latter,
/// what may be sums and what was only moved.
std::size_t sort_of(const Message& message);

/// What a rank lets the others of its host read.
struct WayBoard {
  std::array<std::atomic<ShmWay>, kSorts> ways;  // its last choices
};

/// What a message took its receiver.
struct Took {
  TimeShare all;
  std::optional<std::int64_t> copies_ns;  // its own, where it has looked at the clock
};

/// One rank's choices, and what they go by. Used by one thread at a time.
class Ways {
 public:
  /// `first`: of the first rank on the host, null on that rank itself.
  Ways(WayBoard& mine, const WayBoard* first) : mine_(mine), first_(first) {}

  /// For a message that is worth one, and may be read.
  ShmWay choose(const Message& message);
  /// For one that this rank sends and that could leave unasked, in a call in which such a message comes back: what
  /// those cost this rank is what this one costs its receiver.
  ShmWay choose_to_send(const Message& message);
  /// Of one that came unasked: was it to be read, as the last one that was sent that way?
  bool was_to_be_read(const Message& message) { return of(message).sent == ShmWay::read; }
  /// Are its copies worth a look at the clock each?
  bool wants_time(const Message& message) const;
  bool wants_time_to_send(const Message& message) const;
  /// Of a message that has come whole, all by the wall clock: `first_bytes` were there when it began.
  TimeShare ended(const Message& message, std::size_t first_bytes, std::int64_t begun_ns, std::int64_t now_ns);

  void sends(const Message& message) { traffic_.sends(message); }
  void receives(const Message& message, std::size_t bytes) { traffic_.receives(message, bytes); }
  // A message worth a choice, for which no outbox was used, has left or come; `ns`: where this rank has looked at the
  // clock.
  void sent(const Message& message, std::int64_t ns) {
    of(message).habit().copies_in.learn(message.peer, ns, message.bytes);
  }
  /// declined: it was to be read.
  void streamed(const Message& message, bool declined, const Took& took);
  /// It came through an outbox, for others as well: that teaches nothing.
  void shared(const Message& message) { of(message).crowd.came(); }
  /// Of `bytes` of it, which this rank has copied; its sender the others.
  void read(const Message& message, std::size_t bytes, const Took& took);
  /// At the sender: its receiver has copied the others.
  void written(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns);

 private:
  /// What this rank copies of messages that are read, as their receiver or as their sender.
  struct ReadShare {
    double share;  // of a message, of late
    PeerPaces pace = {};

    double cost() const { return share * pace.cost(); }
    void learn(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns);
  };
  struct Habit {
    PeerPaces copies_in, copies_out;
    ReadShare reads{1}, writes{0};
    PeriodPace all_streamed, all_read;
    std::map<int, WayTrials> by_sender;
    WayTrials together;
    std::size_t declined = 0;  // in a row
  };
  /// Do several ranks send such messages to this one at the same time? As in the last call that is over.
  struct Crowd {
    int posted = 0, sender = -1;  // receives that are open, and of which rank the last one is
    bool is_now = false, was = false;

    void post(int from) {
      is_now |= posted++ > 0 && from != sender;
      sender = from;
    }
    void came() {
      if (posted > 0) --posted;
      if (posted > 0) return;
      was = is_now;
      is_now = false;
    }
    bool is() const { return is_now || was; }
  };
  struct Costs {
    double stream, read;  // ns a byte of a message that is received
  };
  /// What a rank knows of a sort of messages. Times of a rank that only receives stand apart from those of one that
  /// also sends.
  struct Sort {
    Balance balance;
    Habit receiving, exchanging;
    Crowd crowd;
    ShmWay sent = ShmWay::stream;  // of those that could leave unasked, the last one's

    bool sends_too() const;
    /// Who receives alone has few senders in a call, a scatter's one. Who exchanges leads others, for which the trials
    /// of a new sender would be noise.
    const WayTrials* trials(int sender) const;
    std::size_t row_of(const Message& message) const;
    const Habit& habit() const { return sends_too() ? exchanging : receiving; }
    Habit& habit() { return sends_too() ? exchanging : receiving; }
    Costs costs() const;
  };
  Sort& of(const Message& message) { return sorts_[sort_of(message)]; }
  void came(Sort& sort, const Message& message, ShmWay asked);

  WayBoard& mine_;
  const WayBoard* const first_;
  TrafficOfCalls traffic_;
  std::int64_t last_end_ns_ = 0;
  std::uint64_t period_ = 0;
  std::array<Sort, kSorts> sorts_;
};

}  // namespace lanecast::shm
