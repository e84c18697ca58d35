// SPDX-License-Identifier: Apache-2.0
// Short notes between ranks, beside the messages of their calls: which call a rank makes, and why it has given up.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "transport/call_board.h"
#include "transport/mpi/communicator.h"

namespace lanecast {

/// MPI shares no memory to look into, so ranks ask by telling: who waits for a peer sends it the note of its own call,
/// and whoever gets such a note answers with its own note of that call. Nothing is sent or received but by ranks that
/// wait or give up, so a call that runs smoothly costs nothing.
class MpiNotes {
 public:
  MpiNotes(const MpiCommunicator& comm, int tag);
  ~MpiNotes();

  void publish(const CallNote& note) {
    communicator_ = note.communicator;
    mine_.put(note);
  }
  std::optional<CallNote> published(int peer, std::uint64_t sequence);

  /// To all peers; does not wait for any of them.
  void give_up(const Failure& why);
  /// Why the peer has given up, as far as it is known.
  Failure given_up(int peer);

 private:
  /// One size for all: most of it is the text of a failure.
  struct Note {
    std::uint64_t communicator;  // a stray note of an earlier communicator in the same MPI context is not ours
    FailureKind failure;
    bool asks;      // for the receiver's note of the same call
    CallNote call;  // unless a failure
    char why[1000];
  };
  struct Peer {
    Note arriving{};
    CallBoard calls;
    Failure failure;
    std::uint64_t asked = 0;  // the latest call that it has been asked about
  };

  Peer& listen_to(int rank);
  void take_arrived();
  void take(int rank, Peer& peer);
  void tell(int rank, const CallNote& call, bool asks);
  void send(int rank, const Note& note);

  const MpiCommunicator& comm_;
  const int tag_;
  std::uint64_t communicator_ = 0;
  CallBoard mine_;
  std::map<int, std::unique_ptr<Peer>> peers_;  // those that this rank has waited for
  std::vector<std::unique_ptr<Note>> sent_;     // MPI may read them until the transport goes
  std::unique_ptr<MpiRequests> sending_, receiving_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
