// SPDX-License-Identifier: Apache-2.0
// The packet ring of a lane: one writer, one reader, no lock. Positions are bytes since the start, taken modulo the
// ring's size.
//
// Invariant: the header where the next packet will start says `none`. The writer clears the one after a packet before
// it publishes that packet, so that stale payload is never taken for a header.
#pragma once

#include <algorithm>
#include <span>

#include "transport/shm/lane.h"

namespace lanecast::shm {

/// After this much one call of progress() leaves a direction of a lane. Both directions then take turns packet by
/// packet, and what is read has just been written: with 16 packets a turn, all-gathers of 0.1 to 2 MiB took a fifth
/// longer.
inline constexpr std::uint64_t kBytesPerTurn = 4096;

/// Small payloads share the header's line, large ones start on a line of their own, as their copies are fastest.
inline bool shares_line(std::size_t payload_bytes) { return payload_bytes <= kLine - sizeof(PacketHeader); }

inline std::size_t payload_offset(std::size_t payload_bytes) {
  return shares_line(payload_bytes) ? sizeof(PacketHeader) : kLine;
}

inline std::size_t packet_bytes(std::size_t payload_bytes) {
  return (payload_offset(payload_bytes) + payload_bytes + kLine - 1) & ~(kLine - 1);
}

class PacketWriter {
 public:
  explicit PacketWriter(const ShmLane& lane)
      : lane_(lane), reserved_(lane.memory ? ShmLane::kOpenedBytes : lane.ring_bytes) {}

  /// Where to write the payload of the next packet, or null while the ring has no room for it. A packet of up to a
  /// third of the ring gets room once the reader has caught up.
  std::byte* reserve(std::size_t payload_bytes) {
    const std::size_t bytes = packet_bytes(payload_bytes);
    const std::size_t to_end = lane_.ring_bytes - offset();
    const std::size_t skip = to_end < bytes ? to_end : 0;
    if (!has_room(skip + bytes + kLine)) return nullptr;
    if (skip > 0) {
      advance(PacketKind::skip, skip);
    }
    while (reserved_ < std::min(offset() + bytes + kLine, lane_.ring_bytes)) reserve_more();
    return lane_.ring + offset() + payload_offset(payload_bytes);
  }

  std::uint64_t written_bytes() const { return written_; }
  /// What the reader has not taken yet.
  std::uint64_t unread_bytes() {
    if (consumed_ != written_) consumed_ = lane_.control->consumed_bytes.load(std::memory_order_acquire);  // as below
    return written_ - consumed_;
  }

  /// Hands the reserved packet to the reader.
  void publish(PacketKind kind, const PacketFields& fields) {
    header(written_)->fields = fields;
    advance(kind, packet_bytes(fields.payload_bytes));
  }

 private:
  std::size_t offset() const { return written_ & (lane_.ring_bytes - 1); }
  PacketHeader* header(std::uint64_t position) const {
    return reinterpret_cast<PacketHeader*>(lane_.ring + (position & (lane_.ring_bytes - 1)));
  }

  /// Pages for the rest of a ring are taken as packets come to it: most rings see few.
  void reserve_more() {
    const std::size_t bytes = std::min(reserved_, lane_.ring_bytes - reserved_);
    lane_.memory->reserve(lane_.ring + reserved_, bytes);
    reserved_ += bytes;
  }

  bool has_room(std::size_t bytes) {
    if (written_ + bytes - consumed_ <= lane_.ring_bytes) return true;
    // Acquire: pairs with the release in PacketReader::pop(); the reader's loads from the space come before our
    // stores into it.
    consumed_ = lane_.control->consumed_bytes.load(std::memory_order_acquire);
    return written_ + bytes - consumed_ <= lane_.ring_bytes;
  }

  void advance(PacketKind kind, std::size_t bytes) {
    PacketHeader* packet = header(written_);
    written_ += bytes;
    // Relaxed: the release below publishes it together with the packet.
    header(written_)->kind.store(PacketKind::none, std::memory_order_relaxed);
    // Release: pairs with the acquire in PacketReader::peek(); whoever sees the kind sees header and payload.
    packet->kind.store(kind, std::memory_order_release);
  }

  ShmLane lane_;
  std::uint64_t written_ = 0;
  std::uint64_t consumed_ = 0;  // what is known of the reader
  std::size_t reserved_;        // of the ring, from its start
};

class PacketReader {
 public:
  explicit PacketReader(const ShmLane& lane) : lane_(lane) {}

  /// The oldest packet, or null.
  const PacketHeader* peek() {
    // Acquire: pairs with the release in PacketWriter::advance().
    PacketKind kind = header()->kind.load(std::memory_order_acquire);
    if (kind == PacketKind::skip) {
      consume(lane_.ring_bytes - (consumed_ & (lane_.ring_bytes - 1)));
      kind = header()->kind.load(std::memory_order_acquire);  // as above
    }
    return kind == PacketKind::none ? nullptr : header();
  }

  static std::span<const std::byte> payload(const PacketHeader& packet) {
    const std::size_t bytes = packet.fields.payload_bytes;
    return {reinterpret_cast<const std::byte*>(&packet) + payload_offset(bytes), bytes};
  }

  std::uint64_t read_bytes() const { return consumed_; }

  /// Gives the space of the oldest packet back.
  void pop() { consume(packet_bytes(header()->fields.payload_bytes)); }

 private:
  const PacketHeader* header() const {
    return reinterpret_cast<const PacketHeader*>(lane_.ring + (consumed_ & (lane_.ring_bytes - 1)));
  }

  void consume(std::size_t bytes) {
    consumed_ += bytes;
    // Release: pairs with the acquire in PacketWriter::has_room(); our loads from the space come before its reuse.
    lane_.control->consumed_bytes.store(consumed_, std::memory_order_release);
  }

  ShmLane lane_;
  std::uint64_t consumed_ = 0;
};

}  // namespace lanecast::shm
