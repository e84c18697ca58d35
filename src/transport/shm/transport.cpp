// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/transport.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"

namespace lanecast {

using shm::OwnerState;

namespace {

// With peers that are in the middle of a piece when this rank leaves: it takes them some 20 us, unless they are
// stopped.
constexpr auto kPatience = std::chrono::seconds(2);

}  // namespace

ShmTransport::ShmTransport(const Bootstrap& bootstrap, std::span<const int> local_ranks, const ShmOptions& options)
    : rank_(bootstrap.rank),
      layout_(shm::layout_for(local_ranks.size(), options)),
      may_read_(options.single_copy != SingleCopy::off),
      host_(bootstrap, {local_ranks.begin(), local_ranks.end()}, layout_, options.single_copy),
      outbox_(host_.outbox()),
      pair_of_rank_(bootstrap.size, -1) {
  const std::vector<shm::Neighbour>& neighbours = host_.neighbours();
  if (neighbours.empty()) return;
  const bool is_first = rank_ < neighbours.front().rank;
  ways_.emplace(host_.boards()->ways, is_first ? nullptr : &neighbours.front().boards->ways);
  for (const shm::Neighbour& neighbour : neighbours) {
    pair_of_rank_[neighbour.rank] = static_cast<int>(pairs_.size());
    // Who is to read is never declined.
    const double far_from = options.single_copy == SingleCopy::on ? HUGE_VAL : options.far_from;
    const shm::Sender sender{neighbour.process.id(), &neighbour.process, &neighbour.boards->state,
                             neighbour.single_copy, neighbour.outbox};
    pairs_.emplace_back(
        neighbour,
        shm::Outgoing(neighbour.out, neighbour.process.id(), neighbour.single_copy, layout_, *ways_, outbox_, far_from),
        shm::Incoming(rank_, neighbour.in, layout_, sender, *ways_));
  }
}

ShmTransport::~ShmTransport() { leave(OwnerState::closed, {}); }

void ShmTransport::abort(const Failure& cause) { leave(OwnerState::aborted, cause); }

void ShmTransport::leave(OwnerState state, const Failure& cause) {
  left_ = true;
  active_.clear();
  done_.clear();
  host_.announce(state, cause);
  // After that, so that peers hear of it at once.
  for (Pair& pair : pairs_) pair.in.withdraw();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::ranges::any_of(pairs_, [](const Pair& pair) { return pair.in.is_being_written(); }) &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
}

bool ShmTransport::reaches(int peer) const {
  return peer >= 0 && peer < static_cast<int>(pair_of_rank_.size()) && pair_of_rank_[peer] >= 0;
}

bool ShmTransport::may_be_read(int peer, std::size_t bytes, bool sums) const {
  // Where the system lets us read the peer, it lets the peer read us, as a rule; where not, the peer asks for streams.
  return reaches(peer) && pairs_[pair_of_rank_[peer]].neighbour.single_copy != SingleCopy::off &&
         shm::is_worth_a_choice(bytes, sums);
}

bool ShmTransport::is_read_near(int peer) const {
  return may_be_read(peer, SIZE_MAX, false) && !pairs_[pair_of_rank_[peer]].out.is_far();
}

/// Where memory is reserved nobody knows whom it is for.
template <class Part>
void ShmTransport::naming_peer(const Pair& pair, const Part& part) {
  try {
    part();
  } catch (const MemoryShortage& error) {
    throw TransportError("rank " + std::to_string(rank_) + " cannot exchange messages with rank " +
                         std::to_string(pair.neighbour.rank) + ": " + error.what());
  }
}

ShmTransport::Pair* ShmTransport::pair_with(int peer) { return reaches(peer) ? &pairs_[pair_of_rank_[peer]] : nullptr; }

ShmTransport::Pair& ShmTransport::activate(int peer) {
  if (left_) throw TransportError("rank " + std::to_string(rank_) + " has left; make a new communicator");
  Pair& pair = pairs_[pair_of_rank_[peer]];
  if (!pair.open) naming_peer(pair, [&] { host_.open_lanes(pair.neighbour); });
  pair.open = true;
  if (!pair.active) active_.push_back(&pair);
  pair.active = true;
  return pair;
}

void ShmTransport::post_send(Message& message) {
  Pair& pair = activate(message.peer);
  naming_peer(pair, [&] { pair.out.post(message, pair.in.awaits_medium(message.stamp), done_); });
}

void ShmTransport::post_recv(Message& message) { activate(message.peer).in.post(message, done_); }

bool ShmTransport::progress(std::vector<Message*>& done) {
  bool moved = !done_.empty();
  if (moved) {
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  const bool shares = !sends();
  for (std::size_t i = 0; i < active_.size();) {
    Pair& pair = *active_[i];
    // First what a peer waits for: reading its memory takes long, and it could read ours meanwhile.
    if (pair.out.has_pending()) naming_peer(pair, [&] { moved |= pair.out.progress(done); });
    if (pair.in.has_pending()) moved |= pair.in.progress(done, shares);
    pair.active = pair.in.has_pending() || pair.out.has_pending();
    if (pair.active) {
      ++i;
    } else {
      active_[i] = active_.back();
      active_.pop_back();
    }
  }
  return moved;
}

/// Ranks that send to each other have their hands full, and it costs more to write a part than to read all.
bool ShmTransport::sends() const {
  return std::ranges::any_of(active_, [](const Pair* pair) { return pair->out.has_pending(); });
}

bool ShmTransport::arrived(int peer, std::uint64_t tag) {
  Pair& pair = activate(peer);
  pair.in.progress(done_, !sends());
  return pair.in.has_early(tag);
}

}  // namespace lanecast
