// SPDX-License-Identifier: Apache-2.0
// Pieces of messages in memory of the sender that all ranks of the host map, where the receivers read them. What goes
// to several peers at once, as in an all-gather, is copied there once; through their rings each would get a copy of its
// own. Pieces of other long messages lie here too, so that rings can be short.
//
// Messages have one content if they name the same memory and are pending at the same time: a sender's memory does not
// change from its post until it is done, so what the first of them has copied is what the others are to send.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/shared_pages.h"
#include "base/store_choice.h"
#include "transport/shm/lane.h"
#include "transport/shm/layout.h"
#include "transport/span_cursor.h"
#include "transport/transport.h"

namespace lanecast::shm {

inline constexpr std::size_t kPlaceBytes = std::size_t{16} << 10;

/// Beside each place; written by the receivers of pieces that begin there.
struct PlaceControl {
  alignas(kLine) std::atomic<std::uint64_t> taken;  // how often a receiver was through with such a piece, ever
};

/// Where a process has mapped the outbox of a rank.
struct OutboxMemory {
  std::span<PlaceControl> controls;  // by place
  std::byte* places = nullptr;
  const Mapping* memory = nullptr;  // of which it is a part; null: all of its pages are there

  std::byte* at(std::size_t place) const { return places + place * kPlaceBytes; }
};

std::size_t outbox_bytes(const ShmLayout& layout);  // whole pages
OutboxMemory outbox_at(std::byte* begin, const ShmLayout& layout);
OutboxMemory outbox_at(const Mapping& memory, std::size_t offset, const ShmLayout& layout);

/// The payload of a packet that stands for a piece.
struct PieceNote {
  std::uint32_t place;  // where it begins
  std::uint32_t bytes;
  std::uint32_t messages;  // that it is for, this one among them
};

/// One rank's own, used by one thread at a time.
class Outbox {
 public:
  explicit Outbox(const OutboxMemory& memory);

  bool has_places() const { return !pieces_.empty(); }
  std::size_t bytes() const { return pieces_.size() * kPlaceBytes; }

  using ContentIndex = std::uint32_t;
  static constexpr ContentIndex kNone = UINT32_MAX;  // of a message that shares nothing

  /// A message of several pieces is posted; later it is done, or goes another way. Constant time: beyond kContents,
  /// messages share nothing.
  ContentIndex enter(const Message& message);
  void leave(ContentIndex content);
  /// Pending ones that are sent from the same memory.
  std::size_t messages_of(ContentIndex content) const { return content == kNone ? 1 : contents_[content].messages; }

  /// The place of the piece, if it still lies here.
  std::optional<std::uint32_t> find(ContentIndex content, std::size_t offset) const;
  /// Copies the next `bytes` of `from` to free places, if there are as many in a row.
  std::optional<std::uint32_t> put(ContentIndex content, std::size_t offset, SpanCursor& from, std::size_t bytes);
  /// The same for one message alone. `stores`: of what goes to its receiver.
  std::optional<std::uint32_t> put_alone(SpanCursor& from, std::size_t bytes, StoreChoice& stores);
  /// One more receiver is told of it.
  void give(std::uint32_t place);
  /// Was the piece put, or passed?
  bool is_past(ContentIndex content, std::size_t offset) const {
    return content != kNone && offset < contents_[content].front;
  }
  /// One receiver gets the piece in another way.
  void pass(ContentIndex content, std::size_t offset);

 private:
  static constexpr std::size_t kContents = 64;  // at a time
  struct KeptContent {
    std::vector<Span> memory;
    std::size_t bytes = 0;
    std::uint64_t id = 0;      // 0: of no message
    std::size_t messages = 0;  // pending ones
    std::size_t front = 0;     // in the message: no piece from here on was put or has gone another way
  };
  /// Of a place: what began there last.
  struct PlacedPiece {
    std::uint64_t content = 0;     // its id; 0: alone, or overwritten
    std::size_t offset = 0;        // in the message
    std::uint64_t given = 0;       // how often one was sent from this place, ever
    std::size_t owed = 0;          // receivers that are still to be told of this one
    std::uint32_t covered_by = 0;  // where the piece begins whose bytes lie here
    bool reserved = false;
  };

  std::optional<std::uint32_t> free_places(std::uint32_t count);
  bool are_free(std::uint32_t first, std::uint32_t count) const;
  std::optional<std::uint32_t> copy(SpanCursor& from, std::size_t bytes, StoreChoice& stores);

  const OutboxMemory memory_;
  std::vector<PlacedPiece> pieces_;  // by place
  std::vector<KeptContent> contents_;
  std::uint64_t last_id_ = 0;
  std::uint32_t oldest_ = 0, probe_ = 0;  // to be had next
  bool controls_reserved_ = false;
  StoreChoice stores_;
};

}  // namespace lanecast::shm
