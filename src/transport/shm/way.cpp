// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/way.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/copy.h"

namespace lanecast::shm {

namespace {

/// By two ranks, exchanges of 20 KiB took as long either way, and of 32 KiB 0.87 of the time where they were read.
constexpr std::size_t kLeastToRead = std::size_t{24} << 10;
/// Of what several ranks send to one that sends nothing. As streams they copy beside each other, and a reader all by
/// itself: gathers in messages of 32 to 64 KiB, which leave unasked among four ranks now, took a tenth longer so.
constexpr std::size_t kLeastToReadOfMany = std::size_t{1} << 17;
// From each sender, each way, in a row: the first call may meet memory without pages, and the first message of a way
// caches as the other has left them. Reading 512 KiB once takes up to twice as long as reading it again and again, and
// so does streaming it: rows of four never saw what a stream takes once its ring and target are in the caches. What the
// caches do not keep costs as much the first time, and programs make few such calls.
constexpr std::size_t kTrials = 12, kTrialsOfLong = 4;
constexpr std::size_t kLongBytes = std::size_t{4} << 20;
constexpr std::uint64_t kMessagesToTime =
    16;  // messages, beside trials: a look at the thread's own clock costs up to 1 us

/// A rank that sends so much for each byte that it receives takes part in an exchange.
constexpr double kSendsToo = 0.2;

/// The first between two ranks in a call; a later one, of a call that may add up; a later one, of a call that only
/// moves.
constexpr int kOrigins = 3;
constexpr int kLengths = kSorts / kOrigins;
static_assert(kSorts % kOrigins == 0);

double follow(double of_late, double now) { return 0.75 * of_late + 0.25 * now; }

/// From memory that the sender has written in this call, mostly; of the first messages between two ranks it has not.
bool is_later(const Message& message) { return message.tag > 0 && message.tag < first_message_tag(UINT64_MAX); }

}  // namespace

bool is_worth_a_choice(std::size_t bytes, bool sums) {
  // Reading what the sender has added up in its cache is paid by the sender, when it next writes there: reading halves
  // of 0.5 to 4 MiB doubles the time of an all-reduce, and the reader's clock shows nothing of it. Calls that only
  // move gain by it: docs/explanation/decisions/0103-copies-within-a-host.md.
  return sums ? stores_for(bytes) == Stores::bypassing : bytes >= kLeastToRead;
}

bool is_worth_a_choice(const Message& message) {
  return is_worth_a_choice(message.bytes, is_later(message) && may_be_sums(message));
}

bool may_be_read_unasked(const Message& message) {
  return message.tag < first_message_tag(UINT64_MAX) && !may_be_sums(message) && is_worth_a_choice(message);
}

std::size_t sort_of(const Message& message) {
  const int doublings = std::bit_width(message.bytes) - std::bit_width(kLeastToRead);
  const std::size_t origin = !is_later(message) ? 0 : may_be_sums(message) ? 1 : 2;
  return kOrigins * static_cast<std::size_t>(std::clamp(doublings, 0, kLengths - 1)) + origin;
}

ShmWay Ways::choose(const Message& message) {
  const std::size_t number = sort_of(message);
  Sort& sort = sorts_[number];
  sort.balance.meet(message, traffic_);
  // Relaxed, both: any value will do, and nothing else is read or written because of it.
  if (first_ && sort.sends_too()) {
    const ShmWay way = first_->ways[number].load(std::memory_order_relaxed);
    if (way != ShmWay::undecided) return way;
  }
  const auto [stream, read] = sort.costs();
  Habit& habit = sort.habit();
  if (!sort.sends_too()) {
    sort.crowd.post(message.peer);
    if (sort.crowd.is() && message.bytes < kLeastToReadOfMany) return ShmWay::stream;
  }
  WayTrials& trials = sort.sends_too() ? habit.together : habit.by_sender[message.peer];
  const ShmWay way = trials.next(sort.row_of(message), stream, read);
  if (sort.sends_too()) mine_.ways[number].store(way, std::memory_order_relaxed);
  return way;
}

ShmWay Ways::choose_to_send(const Message& message) {
  Sort& sort = of(message);
  sort.balance.meet(message, traffic_);
  sort.sent = sort.sends_too() ? choose(message) : ShmWay::stream;
  return sort.sent;
}

bool Ways::Sort::sends_too() const { return balance.share() > kSendsToo; }

Ways::Costs Ways::Sort::costs() const {
  const Habit& of_late = habit();
  if (!sends_too()) return {of_late.all_streamed.cost(), of_late.all_read.cost()};
  // It copies into rings as well, and writes, as far as it also sends. The copies of its senders are made meanwhile.
  const double share = balance.share();
  return {of_late.copies_out.cost() + share * of_late.copies_in.cost(),
          of_late.reads.cost() + share * of_late.writes.cost()};
}

const WayTrials* Ways::Sort::trials(int sender) const {
  if (sends_too()) return &exchanging.together;
  const auto found = receiving.by_sender.find(sender);
  return found == receiving.by_sender.end() ? nullptr : &found->second;
}

std::size_t Ways::Sort::row_of(const Message& message) const {
  const std::size_t senders = sends_too() ? std::max<std::size_t>(exchanging.by_sender.size(), 1) : 1;
  return (message.bytes * senders < kLongBytes ? kTrials : kTrialsOfLong) * senders;
}

TimeShare Ways::ended(const Message& message, std::size_t first_bytes, std::int64_t begun_ns, std::int64_t now_ns) {
  const std::int64_t before_ns = std::exchange(last_end_ns_, now_ns);
  if (begun_ns < before_ns) return {now_ns - before_ns, message.bytes, period_};
  return {now_ns - begun_ns, first_bytes < message.bytes ? message.bytes - first_bytes : message.bytes, ++period_};
}

bool Ways::wants_time(const Message& message) const {
  if (!is_worth_a_choice(message)) return false;
  const Sort& sort = sorts_[sort_of(message)];
  const WayTrials* const trials = sort.trials(message.peer);
  return !trials || trials->are_under_way(sort.row_of(message)) ||
         sort.habit().together.messages() % kMessagesToTime == 0;
}

bool Ways::wants_time_to_send(const Message& message) const {
  // Who receives nothing meanwhile has no use for it.
  return is_worth_a_choice(message) && sorts_[sort_of(message)].sends_too() && wants_time(message);
}

void Ways::streamed(const Message& message, bool declined, const Took& took) {
  Sort& sort = of(message);
  Habit& habit = sort.habit();
  if (took.copies_ns) habit.copies_out.learn(message.peer, *took.copies_ns, message.bytes);
  habit.all_streamed.learn(took.all);
  habit.declined = declined ? habit.declined + 1 : 0;
  if (habit.declined >= sort.row_of(message)) {  // what reading cost is long ago
    habit.reads = {1};
    habit.all_read = {};
  }
  came(sort, message, declined ? ShmWay::read : ShmWay::stream);
}

void Ways::read(const Message& message, std::size_t bytes, const Took& took) {
  Sort& sort = of(message);
  Habit& habit = sort.habit();
  habit.reads.learn(message, bytes, took.copies_ns);
  habit.all_read.learn(took.all);
  habit.declined = 0;
  came(sort, message, ShmWay::read);
}

void Ways::written(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns) {
  of(message).habit().writes.learn(message, bytes, ns);
}

void Ways::ReadShare::learn(const Message& message, std::size_t bytes, std::optional<std::int64_t> ns) {
  if (ns && bytes > 0) pace.learn(message.peer, *ns, bytes);
  share = follow(share, static_cast<double>(bytes) / static_cast<double>(message.bytes));
}

void Ways::came(Sort& sort, const Message& message, ShmWay asked) {
  sort.crowd.came();
  Habit& habit = sort.habit();
  habit.by_sender[message.peer].came(asked);
  habit.together.came(asked);
  sort.balance.came(message, traffic_);
}

}  // namespace lanecast::shm
