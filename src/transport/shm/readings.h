// SPDX-License-Identifier: Apache-2.0
// Large messages that a receiver reads from its sender's memory, one after the other; or its sender writes them into
// the receiver's, piece by piece, as far as that one comes to it first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer_pool.h"
#include "base/process.h"
#include "transport/shm/control.h"
#include "transport/shm/fifo.h"
#include "transport/shm/outbox.h"
#include "transport/shm/way.h"
#include "transport/span_cursor.h"
#include "transport/transport.h"

namespace lanecast::shm {

/// The process at the other end, for a receiver that reads its memory.
struct Sender {
  int pid = -1;
  const Process* process = nullptr;
  const std::atomic<OwnerState>* state = nullptr;
  SingleCopy single_copy = SingleCopy::off;  // `off` where the system does not let us read it
  OutboxMemory outbox;
};

class Readings {
 public:
  Readings(const Sender& sender, PieceClaims& claims, Ways& ways) : sender_(sender), claims_(claims), ways_(ways) {}

  /// `list`: of spans in the sender's memory. `then`: what the sender is told in the end.
  void begin(Message& message, std::span<const std::byte> list, ControlKind then);

  bool empty() const { return readings_.empty(); }
  /// Is there anything to do for this rank? Not while the rest of the oldest is the sender's to write.
  bool can_go_on(const ControlWriter& notes);
  /// Goes on with the oldest, for a bounded time; did it come further? `shares`: the sender may write a part.
  bool read(ControlWriter& notes, bool shares);
  struct End {
    Message* message;
    ControlKind told;
  };
  /// The oldest, once it is all here and its sender has been told so. Throws where the sender has given up meanwhile.
  std::optional<End> take_ended(ControlWriter& notes);
  /// This rank leaves: the sender gets no piece any more.
  void withdraw();
  /// After that: may the sender still be in the middle of one?
  bool is_being_written() const;

 private:
  struct ReadUnderWay {
    Message* message = nullptr;
    ControlKind then = ControlKind::none;
    BufferPool::Buffer list;
    std::size_t spans_bytes = 0;
    CopyPieces pieces;
    std::uint32_t number = 0;  // under which pieces are claimed; 0: not its turn yet
    bool offered = false;
    std::uint32_t claimed = 0, read = 0;  // pieces, by this rank
    std::uint32_t lent = 0;               // to the sender, when the rest was withdrawn
    SpanCursor local, remote;
    std::size_t place = 0;       // of both
    std::size_t read_bytes = 0;  // by this rank
    bool timed = false;
    std::int64_t begun_ns = 0;   // by the wall clock
    std::int64_t copies_ns = 0;  // that reading has taken
    bool sender_ends = false;    // a killed process loses its memory some time before it counts as ended

    std::span<const Span> spans() const {
      return {reinterpret_cast<const Span*>(list.data.get()), spans_bytes / sizeof(Span)};
    }
  };

  void offer(ReadUnderWay& reading, ControlWriter& notes);
  std::optional<PieceRun> next_pieces(ReadUnderWay& reading);
  bool read_pieces(ReadUnderWay& reading, PieceRun run);
  bool is_whole(const ReadUnderWay& reading) const;

  static constexpr std::size_t kIdleLists = 16;  // a sender is seldom further ahead, time after time

  const Sender sender_;
  PieceClaims& claims_;  // of the lane
  Ways& ways_;
  BufferPool lists_{kIdleLists};
  Fifo<ReadUnderWay> readings_;
};

}  // namespace lanecast::shm
