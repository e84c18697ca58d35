// SPDX-License-Identifier: Apache-2.0
// Large messages that a receiver reads from its sender's memory, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer_pool.h"
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
  const std::atomic<OwnerState>* state = nullptr;
  SingleCopy single_copy = SingleCopy::off;  // `off` where the system does not let us read it
  OutboxMemory outbox;
};

class Readings {
 public:
  Readings(const Sender& sender, Ways& ways) : sender_(sender), ways_(ways) {}

  /// `list`: of spans in the sender's memory. `then`: what the sender is told in the end.
  void begin(Message& message, std::span<const std::byte> list, ControlKind then);

  bool empty() const { return readings_.empty(); }
  bool can_read() { return !empty() && !readings_.front().is_read() && !readings_.front().sender_ends; }
  /// Goes on with the oldest, for a bounded time; how many bytes have come.
  std::size_t read();
  struct End {
    Message* message;
    ControlKind told;
  };
  /// The oldest, once it is all here and its sender has been told so. Throws where the sender has given up meanwhile.
  std::optional<End> take_ended(ControlWriter& notes);

 private:
  struct ReadUnderWay {
    Message* message = nullptr;
    ControlKind then = ControlKind::none;
    BufferPool::Buffer list;
    SpanCursor local, remote;
    std::size_t read_bytes = 0;
    bool timed = false;
    std::int64_t copies_ns = 0;  // that reading has taken
    bool sender_ends = false;    // a killed process loses its memory some time before it counts as ended

    bool is_read() const { return read_bytes == message->bytes; }
  };

  static constexpr std::size_t kIdleLists = 16;  // a sender is seldom further ahead, time after time

  const Sender sender_;
  Ways& ways_;
  BufferPool lists_{kIdleLists};
  Fifo<ReadUnderWay> readings_;
};

}  // namespace lanecast::shm
