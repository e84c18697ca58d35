// SPDX-License-Identifier: Apache-2.0
// Pieces of messages that go to several peers at once, as in an all-gather: copied once, into memory of the sender that
// all ranks of the host map, and read there by each of them. Through their rings each would get a copy of its own.
//
// Messages have one content if they name the same memory and are pending at the same time: a sender's memory does not
// change from its post until it is done, so what the first of them has copied is what the others are to send.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/shm/copy_in.h"
#include "transport/shm/lane.h"
#include "transport/shm/layout.h"
#include "transport/span_cursor.h"
#include "transport/transport.h"

namespace lanecast::shm {

/// Beside each place for a piece; written by its receivers.
struct PlaceControl {
  alignas(kLine) std::atomic<std::uint64_t> taken;  // how often a receiver was through with what lay here, ever
};

/// Where a process has mapped the outbox of a rank.
struct OutboxMemory {
  std::span<PlaceControl> controls;  // by place
  std::byte* pieces = nullptr;
  std::size_t piece_bytes = 0;  // from one place to the next

  std::byte* at(std::size_t place) const { return pieces + place * piece_bytes; }
};

std::size_t outbox_bytes(const Layout& layout);  // whole pages
OutboxMemory outbox_at(std::byte* memory, const Layout& layout);

/// The payload of a packet that stands for a piece.
struct PieceNote {
  std::uint32_t place;
  std::uint32_t bytes;
  std::uint32_t messages;  // of its content, pending when this one was sent
};

/// One rank's own, used by one thread at a time. Without places nothing is shared.
class Outbox {
 public:
  explicit Outbox(const OutboxMemory& memory) : memory_(memory), pieces_(memory.controls.size()) {}

  bool has_places() const { return !pieces_.empty(); }

  using ContentIndex = std::uint32_t;
  static constexpr ContentIndex kNone = UINT32_MAX;  // of a message that shares nothing

  /// A message of several pieces is posted; later it is done, or goes another way. Constant time: beyond kContents,
  /// messages share nothing.
  ContentIndex enter(const Message& message);
  void leave(ContentIndex content);
  /// Pending ones that are sent from the same memory.
  std::size_t messages_of(ContentIndex content) const { return content == kNone ? 1 : contents_[content].messages; }

  /// The place of the piece, if it still lies in one.
  std::optional<std::uint32_t> find(ContentIndex content, std::size_t offset) const;
  /// Copies the next `bytes` of `from` to a free place, if there is one.
  std::optional<std::uint32_t> put(ContentIndex content, std::size_t offset, SpanCursor& from, std::size_t bytes);
  /// One more receiver is told of it.
  void give(std::uint32_t place);
  /// Was the piece put, or passed?
  bool is_past(ContentIndex content, std::size_t offset) const { return offset < contents_[content].front; }
  /// One receiver gets the piece in another way.
  void pass(ContentIndex content, std::size_t offset);

 private:
  static constexpr std::size_t kContents = 64;  // at a time
  struct Content {
    std::vector<Span> memory;
    std::size_t bytes = 0;
    std::uint64_t id = 0;      // 0: of no message
    std::size_t messages = 0;  // pending ones
    std::size_t front = 0;     // in the message: no piece from here on was put or has gone another way
  };
  struct Piece {
    std::uint64_t content = 0;  // its id
    std::size_t offset = 0;     // in the message
    std::uint64_t given = 0;    // how often one was sent from this place, ever
    std::size_t owed = 0;       // receivers that are still to be told of this one
  };

  std::optional<std::uint32_t> free_place();

  const OutboxMemory memory_;
  std::vector<Piece> pieces_;  // by place
  std::vector<Content> contents_;
  std::uint64_t last_id_ = 0;
  std::uint32_t oldest_ = 0, probe_ = 0;  // places to be had next
  CopyIn copy_in_;
};

}  // namespace lanecast::shm
