// SPDX-License-Identifier: Apache-2.0
// The receiver's half of a lane: asks for what is posted, matches what arrives and puts it where it belongs.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "base/buffer_pool.h"
#include "transport/shm/control.h"
#include "transport/shm/fifo.h"
#include "transport/shm/layout.h"
#include "transport/shm/readings.h"
#include "transport/shm/ring.h"
#include "transport/shm/way.h"
#include "transport/span_cursor.h"
#include "transport/tag_queues.h"
#include "transport/transport.h"

namespace lanecast::shm {

class Incoming {
 public:
  /// `rank` and `ways`: this rank's.
  Incoming(int rank, const ShmLane& lane, const ShmLayout& layout, const Sender& sender, Ways& ways)
      : rank_(rank),
        packets_(lane),
        notes_(lane.control),
        layout_(layout),
        sender_(sender),
        ways_(ways),
        readings_(sender, lane.control->claims, ways) {}

  void post(Message& message, std::vector<Message*>& done);
  /// `shares`: may the sender write a part of what is read?
  bool progress(std::vector<Message*>& done, bool shares);

  bool has_pending() const { return pending_ > 0; }
  /// See Readings.
  void withdraw() { readings_.withdraw(); }
  bool is_being_written() const { return readings_.is_being_written(); }
  /// Has a message of this tag come before its receive?
  bool has_early(std::uint64_t tag) { return early_.front(tag) != nullptr; }
  /// Is a receive of a call open whose message may come unasked or be read? See ShmLayout.
  bool awaits_medium(std::uint32_t stamp) const { return medium_pending_ > 0 && medium_stamp_ == stamp; }
  /// Has the sender put something that progress() can take? Not what only waits for the sender to read its notes.
  bool has_unread() { return packets_.peek() != nullptr || readings_.can_go_on(notes_); }

 private:
  /// An eager message or a notice that came before its receive.
  struct EarlyMessage {
    std::size_t bytes;        // of the message
    BufferPool::Buffer data;  // of a notice: the list of spans
    std::size_t data_bytes;   // 0 for a notice that tells none
    std::uint32_t stamp;
    bool is_notice;
  };
  /// One that no packet has met. Of a large message:
  struct Receive {
    Message* message;
    ShmWay way;
    bool asked;  // or waits for its notice, or for all of it at once
  };
  struct IncomingStream {
    Message* message = nullptr;
    SpanCursor memory;
    std::size_t received_bytes = 0;
    Stores stores = Stores::ordinary;
    bool timed = false;
    std::int64_t begun_ns = 0;    // by the wall clock
    std::size_t first_bytes = 0;  // that were there then
    std::int64_t copies_ns = 0;   // that taking it out of the ring has cost
    bool shared = false;          // any of it with other messages
    bool declined = false;        // it was to be read
    bool chosen = false;          // it is worth a choice
  };

  static constexpr std::size_t kIdleBuffers = 16;  // a sender is seldom further ahead, time after time

  void check(const Message& receive, std::size_t sent_bytes, std::uint32_t stamp) const;
  /// Both lengths are equal, and one rank alone takes the message for one that leaves unasked: their calls differ.
  [[noreturn]] void raise_other_sort(const Message& receive) const;
  ShmWay way_for(const Message& message);
  /// All of an eager message, for its receive.
  void deliver(Message& receive, const std::byte* data, std::vector<Message*>& done);
  void ask_for(const Receive& receive);
  /// A notice has come for the receive.
  void meet(const Receive& receive, std::span<const std::byte> list);
  /// Goes on with what is read from the sender's memory; true when something came of it.
  bool read_on(std::vector<Message*>& done, bool shares);
  void take(const PacketHeader& packet, std::vector<Message*>& done);
  void take_first(const PacketHeader& packet, std::vector<Message*>& done);
  void take_fragment(const PacketHeader& packet, std::vector<Message*>& done);
  void take_piece(const PacketHeader& packet, std::vector<Message*>& done);
  /// `alike`: how many messages of this length the ranks of the host receive at the time.
  void begin_stream(const PacketHeader& packet, std::size_t alike);
  void take_data(const std::byte* data, std::size_t bytes, std::vector<Message*>& done);
  /// The receive for a large message of which the first packet, or the first after its notice, is here.
  Receive match(const PacketFields& fields);
  void finish(Message* message, std::vector<Message*>& done);

  const int rank_;
  PacketReader packets_;
  ControlWriter notes_;
  const ShmLayout layout_;
  const Sender sender_;
  Ways& ways_;
  std::size_t pending_ = 0;
  std::size_t medium_pending_ = 0;  // of the call that the last of them belongs to
  std::uint32_t medium_stamp_ = 0;
  std::uint64_t pieces_bytes_ = 0;  // taken from the sender's outbox, ever

  TagQueues<Receive> posted_;   // not met by any packet yet
  TagQueues<Receive> noticed_;  // asked for and met by a notice, but by no data yet
  // Under each tag, one for each receive that was not asked for and whose message is not fetched yet, nor has come
  // whole where it could. The next ones are not asked for either meanwhile: a sender takes the k-th it hears of a tag
  // for the k-th message.
  TagQueues<std::monostate> unasked_;
  TagQueues<EarlyMessage> early_;
  BufferPool early_buffers_{kIdleBuffers};
  Fifo<ControlNote> unsent_notes_;  // while the control slots are full
  IncomingStream stream_;
  Readings readings_;
};

}  // namespace lanecast::shm
