// SPDX-License-Identifier: Apache-2.0
// The sender's half of a lane: which message may go, in which order, and its packets.
#pragma once

#include <vector>

#include "base/store_choice.h"
#include "transport/shm/control.h"
#include "transport/shm/fifo.h"
#include "transport/shm/layout.h"
#include "transport/shm/outbox.h"
#include "transport/shm/ring.h"
#include "transport/shm/way.h"
#include "transport/shm/writing.h"
#include "transport/span_cursor.h"
#include "transport/tag_queues.h"
#include "transport/transport.h"

namespace lanecast::shm {

class Outgoing {
 public:
  /// `receiver`: its process, and how it may read; `ways`, `outbox`: this rank's; `far_from`: ShmOptions'.
  Outgoing(const ShmLane& lane, int receiver, SingleCopy reads, const ShmLayout& layout, Ways& ways, Outbox& outbox,
           double far_from)
      : packets_(lane),
        notes_(lane.control),
        writing_(lane.control->claims, receiver),
        reads_(reads),
        layout_(layout),
        ways_(ways),
        outbox_(outbox),
        far_from_(far_from) {}

  /// comes_back: does this rank await such a message of the same call from there?
  void post(Message& message, bool comes_back, std::vector<Message*>& done);
  bool progress(std::vector<Message*>& done);

  /// Does the receiver, of late, share no cache with this process? False until that is known.
  bool is_far() const { return stores_.ratio() > far_from_; }

  bool has_pending() const { return pending_ > 0; }
  /// Has the receiver said something that progress() has not seen yet?
  bool has_unread() const { return notes_.has_note(); }

 private:
  struct Sending {
    Message* message = nullptr;
    Outbox::ContentIndex content = Outbox::kNone;
    PacketKind first = PacketKind::notice;  // or eager
  };
  struct SendTurn {
    PacketKind kind;  // fragment: a whole stream of them; the others take one packet
    Sending sending;
    bool noticed = false;
  };
  struct OutgoingStream {
    Sending sending;
    SpanCursor memory;
    std::size_t sent_bytes = 0;
    bool noticed = false;
    bool shared = false;  // any of it, with other messages
    bool timed = false;
    std::int64_t copies_ns = 0;  // that copying it has taken
  };

  bool leaves_unasked(const Message& message, bool comes_back);
  PacketKind kind_for(ControlKind wish, const Message& message) const;
  bool may_be_read(const Message& message) const;
  /// Payload of the one packet that stands for the message, or brings it.
  std::size_t payload_bytes(PacketKind kind, const Message& message) const;
  void read_notes(std::vector<Message*>& done);
  /// The receiver has it all.
  void finish_read(const Sending& sending, std::vector<Message*>& done);
  /// A large message under `tag` has its turn: give what waited behind it theirs.
  void release_behind(std::uint64_t tag);
  bool put_next(std::vector<Message*>& done);
  bool put_single(const SendTurn& turn, std::vector<Message*>& done);
  bool put_fragment(std::vector<Message*>& done);
  /// Through the outbox, at once or in a later turn. False: the piece is short and no other message's, or there is no
  /// place to wait for.
  bool put_piece();
  bool waits_for_place();
  void put_copy();
  /// Borders of pieces are the same for all messages of a content; through the ring one goes in packets.
  std::size_t piece_bytes_for(std::size_t message_bytes) const;
  void finish(const Sending& sending, std::vector<Message*>& done);

  PacketWriter packets_;
  ControlReader notes_;
  Writing writing_;
  StoreChoice stores_;
  const SingleCopy reads_;
  const ShmLayout layout_;
  Ways& ways_;
  Outbox& outbox_;
  const double far_from_;
  std::size_t pending_ = 0;
  std::uint64_t pieces_bytes_ = 0;   // sent through the outbox, ever
  std::int64_t waits_since_ns_ = 0;  // the receiver has taken everything and the outbox has no place; 0: it has
  bool gave_up_waiting_ = false;     // too long, and there was no place since

  // Under each tag: a noticed message that is not asked for yet, nor read, whose notice has its turn, then what came
  // after it. So under one tag the first packets of all messages enter the ring in the order of posting, which is what
  // matches them.
  TagQueues<Sending> held_;
  TagQueues<ControlKind> asked_for_;  // receives whose send is not posted yet
  Fifo<SendTurn> turns_;              // what may go, in this order
  OutgoingStream stream_;             // under way; single packets of turns_ overtake it
  Fifo<Sending> being_read_;          // remote, until the receiver has taken them
};

}  // namespace lanecast::shm
