// SPDX-License-Identifier: Apache-2.0
// What the ranks of a host know of each other, by their boards.
#include "transport/shm/transport.h"

namespace lanecast {

using shm::OwnerState;

void ShmTransport::BoardWitness::publish(const CallNote& note) {
  if (shm::Boards* mine = owner_.host_.boards()) mine->calls.put(note);
}

void ShmTransport::BoardWitness::publish_wait(std::span<const int> peers, bool /*may_be_asked*/) {
  if (shm::Boards* mine = owner_.host_.boards()) mine->waits.put(peers);
}

std::optional<CallNote> ShmTransport::BoardWitness::published(int peer, std::uint64_t sequence) {
  const Pair* const pair = owner_.pair_with(peer);
  return pair ? pair->neighbour.boards->calls.find(sequence) : std::nullopt;
}

std::optional<Waiting> ShmTransport::BoardWitness::waiting(int peer, double /*silent_s*/) {
  const Pair* const pair = owner_.pair_with(peer);
  return pair ? std::optional(pair->neighbour.boards->waits.get()) : std::nullopt;
}

void ShmTransport::BoardWitness::want(int peer, const Want& want) {
  if (owner_.reaches(peer) && !owner_.left_) owner_.activate(peer).neighbour.in.control->wants.put(want);
}

std::optional<Want> ShmTransport::BoardWitness::wanted(int peer) {
  const Pair* const pair = owner_.pair_with(peer);
  if (!pair || !owner_.host_.has_opened_lanes(pair->neighbour)) return {};
  return pair->neighbour.out.control->wants.get();
}

Loss ShmTransport::BoardWitness::lost(int peer) {
  Pair* const pair = owner_.pair_with(peer);
  if (!pair) return {};
  const shm::Boards& boards = *pair->neighbour.boards;
  Loss loss{"process " + std::to_string(pair->neighbour.process.id()), {}};
  // Acquire: pairs with the release in Host::announce().
  switch (boards.state.load(std::memory_order_acquire)) {
    case OwnerState::open:
      if (!pair->neighbour.process.has_ended()) return {};
      loss.what += " has ended";
      break;
    case OwnerState::closed:
      loss.what += " has closed its transport";
      loss.left = true;
      break;
    case OwnerState::aborted:
      loss.what += " has given up";
      loss.cause = {boards.failure, boards.reason};
      break;
  }
  // What the peer did before still counts: let progress() take it first.
  if (pair->in.has_pending() && pair->in.has_unread()) return {};
  if (pair->out.has_pending() && pair->out.has_unread()) return {};
  return loss;
}

std::optional<int> ShmTransport::BoardWitness::given_up() {
  // Relaxed: lost() looks again.
  for (const Pair& pair : owner_.pairs_)
    if (pair.neighbour.boards->state.load(std::memory_order_relaxed) == OwnerState::aborted) return pair.neighbour.rank;
  return {};
}

}  // namespace lanecast
