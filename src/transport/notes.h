// SPDX-License-Identifier: Apache-2.0
// Short notes between ranks, beside the messages of their calls: which call a rank makes, whom it waits for, and why it
// has given up.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/call_board.h"
#include "transport/witness.h"

namespace lanecast {

/// What carries notes between ranks. All come in the order in which they were sent.
class NoteCarrier {
 public:
  static constexpr std::size_t kMostBytes = 1280;

  virtual ~NoteCarrier() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// From now on notes of that rank are taken; more than once does no harm.
  virtual void listen_to(int rank) = 0;
  /// Has a note come from a rank that is not listened to? It may take a few looks to see.
  virtual bool has_unheard() = 0;
  virtual void send(int rank, std::span<const std::byte> note) = 0;
  /// Moves what is being sent; false when nothing is.
  virtual bool sending() = 0;
  using Take = std::function<void(int rank, std::span<const std::byte> note)>;
  /// Hands over what has come; `take` may send.
  virtual void take_arrived(const Take& take) = 0;
};

/// There is no shared memory to look into, so ranks that wait ask others, and answer them while they wait themselves.
/// Nothing is sent or received but by ranks that wait or give up, so a call that runs smoothly costs nothing. A rank
/// is asked one thing at a time: notes do not pile up at one that computes.
class Notes : public Witness {
 public:
  explicit Notes(NoteCarrier& carrier);

  /// Only what the peer has said before it gave up.
  Loss lost(int peer) override;
  std::optional<int> given_up() final;
  bool tell() override { return carrier_.sending(); }

  void publish(const CallNote& note) final {
    communicator_ = note.communicator;
    begun_ = note.sequence;
    mine_.put(note);
    chains_[note.sequence % kChains] = {note.sequence, note.chain};
  }
  /// Asks by telling: the peer is sent this rank's note of that call, and answers with its own once it has begun it and
  /// waits. Where the two differ it answers with those of its calls before as well, since an earlier one may be where
  /// they began to: nothing that differs is known before all that it takes to tell is. Of a call that the peer has left
  /// far behind, its answer has the words of its latest call, and at last no chain either.
  std::optional<CallNote> published(int peer, std::uint64_t sequence) final;

  /// Answers whoever has asked; may_be_asked: listens to all from now on.
  void publish_wait(std::span<const int> peers, bool may_be_asked) final;
  /// Asks again when the last answer is half as old as `silent_s`.
  std::optional<Waiting> waiting(int peer, double silent_s) final;

  /// Tells the peer, which sends a receipt: until it has come, nothing more is told.
  void want(int peer, const Want& want) final;
  std::optional<Want> wanted(int peer) final;

  /// Whom give_up() tells; all, where nobody has said.
  void carries(std::span<const int> peers) override { carried_.assign(peers.begin(), peers.end()); }
  /// Does not wait for any of them.
  void give_up(const Failure& why);

 private:
  using Clock = std::chrono::steady_clock;

  enum class Subject : std::uint32_t { call, wait, want, failure };
  struct Header {
    std::uint64_t communicator = 0;  // a stray note of an earlier communicator is not ours
    std::uint64_t body_bytes = 0;
    Subject subject{};
    FailureKind failure{};
    bool asks = false;  // for the receiver's own note on the subject, or for a receipt
  };
  /// Sent up to the end of what its body holds: CallNotes, the ranks that are waited for, a Want, or the words of a
  /// failure.
  static constexpr std::size_t kMostCalls = 5;
  struct Note : Header {
    std::array<std::byte, 1024> body;
  };
  static_assert(kMostCalls * sizeof(CallNote) <= sizeof(Note::body));
  static_assert(sizeof(Note) <= NoteCarrier::kMostBytes);
  /// Who only sends may be any number of calls ahead of those who receive; their questions are about the call that they
  /// wait in. 32 KiB.
  static constexpr std::size_t kChains = 2048;
  struct Chain {
    std::uint64_t sequence = 0, chain = 0;
  };
  struct Peer {
    CallBoard calls;
    Failure failure;
    std::uint64_t asked = 0;                 // the latest call that it has been asked about
    std::optional<CallNote> question;        // of its own, and not answered yet
    std::vector<int> awaited;                // by it
    bool wait_asked = false;                 // whom it waits for, and it has not answered yet
    Want want;                               // of ours, as the peer has last been told
    bool want_told = false;                  // and there is no receipt yet
    std::optional<Want> wanted;              // by it
    std::optional<Clock::time_point> heard;  // its last answer; before that, the first question
  };

  Peer& listen_to(int rank);
  void listen_to_all();
  void take_arrived();
  void take(int rank, std::span<const std::byte> bytes);
  void take_calls(int rank, Peer& peer, const Note& note);
  /// Answers the peer's question if this rank has begun that call.
  void answer(int rank, Peer& peer);
  /// The chain of a call of this rank; 0 where it is not known, or not any more.
  std::uint64_t chain_of(std::uint64_t sequence) const;
  /// A call of this rank as its peers are told of it, with what is still known.
  CallNote recall(std::uint64_t sequence) const;
  void send(int rank, const Header& header, std::span<const std::byte> body);

  NoteCarrier& carrier_;
  std::uint64_t communicator_ = 0;
  std::uint64_t begun_ = 0;  // the latest call of this rank
  CallBoard mine_;
  std::vector<Chain> chains_ = std::vector<Chain>(kChains);  // of more calls than mine_ has
  std::vector<int> carried_;
  std::vector<int> awaited_;                    // whom this rank waits for, as it has last published
  std::map<int, std::unique_ptr<Peer>> peers_;  // to whom this rank listens
};

}  // namespace lanecast
