// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/way.h"

#include <algorithm>
#include <bit>

#include "base/copy.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kLeastToRead = std::size_t{1} << 17;  // shorter ones were never faster read than streamed
// From each peer, each way, in a row: the first call may meet memory without pages, and the first message of a way
// caches as the other has left them. Reading 512 KiB once takes up to twice as long as reading it again and again, and
// so does streaming it: rows of four never saw what a stream takes once its ring and target are in the caches. What the
// caches do not keep costs as much the first time, and programs make few such calls.
constexpr std::size_t kTrials = 12, kTrialsOfLong = 4;
constexpr std::size_t kLongBytes = std::size_t{4} << 20;
constexpr double kRowsToRetry = 32;  // such rows, times how much longer the worse way takes
constexpr std::uint64_t kMessagesToTime =
    16;  // messages, beside trials: a look at the thread's own clock costs up to 1 us

/// Bytes sent for each that is received. Who only receives goes by itself: the first rank may be the one that sends,
/// and have chosen for other calls. One message of an exchange says that it is one.
constexpr double kSendsToo = 0.2;

constexpr int kLengths = kSorts / 2;

/// From memory that the sender has written in this call, mostly; of the first messages between two ranks it has not.
bool is_later(const Message& message) { return message.tag > 0 && message.tag < first_message_tag(UINT64_MAX); }

double follow(double of_late, double now) { return 0.75 * of_late + 0.25 * now; }

}  // namespace

bool is_worth_a_choice(const Message& message) {
  // Reading what the sender has in its cache is paid by the sender, when it next writes there: reading halves of
  // 0.5 to 4 MiB doubles the time of an all-reduce, and the reader's clock shows nothing of it.
  if (is_later(message)) return stores_for(message.bytes) == Stores::bypassing;
  return message.bytes >= kLeastToRead;
}

std::size_t sort_of(const Message& message) {
  const int doublings = std::bit_width(message.bytes) - std::bit_width(kLeastToRead);
  return 2 * static_cast<std::size_t>(std::clamp(doublings, 0, kLengths - 1)) + (is_later(message) ? 1 : 0);
}

ShmWay Ways::choose(const Message& message, const WayBoard& sender) {
  const std::size_t sort = sort_of(message);
  // Relaxed, all: any value will do, and nothing else is read or written because of it.
  if (first_ && habits_[sort].sent_share > kSendsToo) {
    const ShmWay way = first_->ways[sort].load(std::memory_order_relaxed);
    if (way != ShmWay::undecided) return way;
  }
  // A stream is as slow as the slower end. As many senders may be at work as there are peers.
  const double senders = sender.copies_in[sort].load(std::memory_order_relaxed) / static_cast<double>(peers_);
  const ShmWay way = next_way(habits_[sort], trials_of(message), senders);
  mine_.ways[sort].store(way, std::memory_order_relaxed);
  return way;
}

std::size_t Ways::trials_of(const Message& message) const {
  return (message.bytes < kLongBytes ? kTrials : kTrialsOfLong) * peers_;
}

bool Ways::wants_time(const Message& message) const {
  if (!is_worth_a_choice(message)) return false;
  const Habit& habit = habits_[sort_of(message)];
  const std::size_t trials = trials_of(message);
  return habit.retries || habit.streamed < trials || habit.read < trials ||
         (habit.streamed + habit.read) % kMessagesToTime == 0;
}

ShmWay Ways::next_way(Habit& habit, std::size_t trials, double senders) {
  if (habit.streamed < trials) return ShmWay::stream;
  if (habit.read < trials) return ShmWay::read;  // the sender may decline
  const double stream = std::max(habit.stream_cost(), senders), read = habit.read_cost();
  const ShmWay better = read < stream ? ShmWay::read : ShmWay::stream;
  const double ratio = std::max(read, stream) / std::min(read, stream);
  const double retries = static_cast<double>(++habit.since_retry) - kRowsToRetry * ratio * static_cast<double>(trials);
  habit.retries = retries > 0;
  if (!habit.retries) return better;
  if (retries >= static_cast<double>(trials)) habit.since_retry = 0;
  return better == ShmWay::read ? ShmWay::stream : ShmWay::read;
}

void Ways::sent(const Message& message, std::int64_t ns) {
  const std::size_t sort = sort_of(message);
  Pace& pace = habits_[sort].copies_in;
  pace.learn(ns, message.bytes);
  mine_.copies_in[sort].store(static_cast<float>(pace.cost()), std::memory_order_relaxed);
}

void Ways::streamed(const Message& message, std::optional<std::int64_t> ns) {
  Habit& habit = habits_[sort_of(message)];
  if (ns) habit.copies_out.learn(*ns, message.bytes);
  ++habit.streamed;
  came(habit);
}

void Ways::read(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns) {
  Habit& habit = habits_[sort_of(message)];
  habit.reads.learn(message, bytes, ns);
  ++habit.read;
  came(habit);
}

void Ways::written(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns) {
  habits_[sort_of(message)].writes.learn(message, bytes, ns);
}

void Ways::ReadShare::learn(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns) {
  if (ns && bytes > 0) pace.learn(*ns, bytes);
  share = follow(share, static_cast<double>(bytes) / static_cast<double>(message.bytes));
}

void Ways::came(Habit& habit) {
  const auto sent = static_cast<double>(sent_bytes_ - habit.sent_bytes);
  const auto received = static_cast<double>(received_bytes_ - habit.received_bytes);
  habit.sent_share = follow(habit.sent_share, std::min(1.0, sent / received));
  habit.sent_bytes = sent_bytes_;
  habit.received_bytes = received_bytes_;
}

}  // namespace lanecast::shm
