// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/notes.h"

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

void MpiNotes::take_arrived() {
  completions_.clear();
  receiving_->test(completions_);
  if (completions_.empty()) return;
  for (const auto& [rank, peer] : peers_)
    for (const MpiCompletion& completion : completions_)
      if (completion.owner == peer.get()) take(rank, *peer);
}

void MpiNotes::take(int rank, Peer& peer) {
  const Note note = peer.arriving;
  receiving_->receive({comm_.handle(), rank, tag_, &peer.arriving, sizeof(Note)}, &peer);
  if (note.communicator != communicator_) return;
  if (note.failure != FailureKind::none) {
    peer.failure = {note.failure, note.why};
    return;
  }
  peer.calls.put(note.call);
  const auto mine = mine_.find(note.call.sequence);
  if (note.asks && mine) tell(rank, *mine, /*asks=*/false);
}

void MpiNotes::tell(int rank, const CallNote& call, bool asks) {
  Note note{};
  note.communicator = communicator_;
  note.asks = asks;
  note.call = call;
  send(rank, note);
}

void MpiNotes::send(int rank, const Note& note) {
  if (!comm_.api().alive()) return;
  sent_.push_back(std::make_unique<Note>(note));
  sending_->send({comm_.handle(), rank, tag_, sent_.back().get(), sizeof(Note)}, nullptr);
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

void MpiNotes::give_up(const Failure& why) {
  Note note{};
  note.communicator = communicator_;
  note.failure = why.kind;
  note.why[why.text.copy(note.why, sizeof note.why - 1)] = '\0';
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank()) send(rank, note);
}

Failure MpiNotes::given_up(int peer) {
  Peer& theirs = listen_to(peer);
  take_arrived();
  return theirs.failure;
}

}  // namespace lanecast
