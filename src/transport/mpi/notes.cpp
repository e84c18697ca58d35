// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/notes.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lanecast {

MpiNotes::MpiNotes(const MpiCommunicator& comm, int tag)
    : comm_(comm), tag_(tag), sending_(comm.api().requests()), receiving_(comm.api().requests()) {}

MpiNotes::~MpiNotes() {
  completions_.clear();
  if (comm_.api().alive()) sending_->test(completions_);
  // A note whose peer never looks is MPI's for good: 1 KiB, and only where something went wrong.
  if (!sending_->empty())
    for (auto& note : sent_) static_cast<void>(note.release());
}

MpiNotes::Peer& MpiNotes::listen_to(int rank) {
  auto& peer = peers_[rank];
  if (!peer) {
    peer = std::make_unique<Peer>();
    receiving_->receive({comm_.handle(), rank, tag_, &peer->arriving, sizeof(Note)}, peer.get());
  }
  return *peer;
}

void MpiNotes::listen_to_all() {
  if (static_cast<int>(peers_.size()) == comm_.size() - 1) return;
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank()) listen_to(rank);
}

void MpiNotes::take_arrived() {
  std::vector<MpiCompletion> arrived;
  receiving_->test(arrived);
  if (arrived.empty()) return;
  for (const auto& [rank, peer] : peers_)
    for (const MpiCompletion& completion : arrived)
      if (completion.owner == peer.get()) take(rank, *peer);
}

void MpiNotes::take(int rank, Peer& peer) {
  const Note note = peer.arriving;
  receiving_->receive({comm_.handle(), rank, tag_, &peer.arriving, sizeof(Note)}, &peer);
  if (note.communicator != communicator_) return;
  switch (note.subject) {
    case Subject::call: {
      CallNote call;
      std::memcpy(&call, note.body.data(), sizeof call);
      peer.calls.put(call);
      const auto mine = mine_.find(call.sequence);
      if (note.asks != 0 && mine) tell(rank, *mine, /*asks=*/false);
      return;
    }
    case Subject::wait:
      if (note.asks != 0) return send(rank, {.subject = Subject::wait}, std::as_bytes(std::span(awaited_)));
      peer.awaited.resize(note.body_bytes / sizeof(int));
      std::memcpy(peer.awaited.data(), note.body.data(), note.body_bytes);
      peer.wait_asked = false;
      peer.heard = Clock::now();
      return;
    case Subject::failure:
      peer.failure = {note.failure, {reinterpret_cast<const char*>(note.body.data()), note.body_bytes}};
      return;
  }
}

void MpiNotes::tell(int rank, const CallNote& call, bool asks) {
  send(rank, {.subject = Subject::call, .asks = asks}, std::as_bytes(std::span(&call, 1)));
}

void MpiNotes::send(int rank, const Header& header, std::span<const std::byte> body) {
  if (!comm_.api().alive()) return;
  sent_.push_back(std::make_unique<Note>());
  Note& note = *sent_.back();
  static_cast<Header&>(note) = header;
  note.communicator = communicator_;
  note.body_bytes = std::min(body.size(), note.body.size());
  std::ranges::copy(body.first(note.body_bytes), note.body.begin());
  sending_->send({comm_.handle(), rank, tag_, &note, sizeof(Header) + note.body_bytes}, nullptr);
  completions_.clear();
  sending_->test(completions_);
  if (sending_->empty()) sent_.clear();
}

std::optional<CallNote> MpiNotes::published(int peer, std::uint64_t sequence) {
  Peer& theirs = listen_to(peer);
  const auto mine = mine_.find(sequence);
  if (mine && theirs.asked < sequence) {
    theirs.asked = sequence;
    tell(peer, *mine, /*asks=*/true);
  }
  take_arrived();
  return theirs.calls.find(sequence);
}

void MpiNotes::publish_wait(std::span<const int> peers) {
  awaited_.assign(peers.begin(), peers.end());
  take_arrived();
}

Waiting MpiNotes::waiting(int peer, double silent_s) {
  Peer& theirs = listen_to(peer);
  const auto now = Clock::now();
  const bool is_new = !theirs.heard;
  const std::chrono::duration<double> age = now - theirs.heard.value_or(now);
  listen_to_all();
  if (is_new || (!theirs.wait_asked && age.count() > silent_s / 2)) {
    if (is_new) theirs.heard = now;
    theirs.wait_asked = true;
    send(peer, {.subject = Subject::wait, .asks = true}, {});
  }
  return {theirs.awaited, age.count()};
}

void MpiNotes::give_up(const Failure& why) {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank())
      send(rank, {.subject = Subject::failure, .failure = why.kind}, std::as_bytes(std::span(why.text)));
}

Failure MpiNotes::given_up(int peer) {
  Peer& theirs = listen_to(peer);
  take_arrived();
  return theirs.failure;
}

}  // namespace lanecast
