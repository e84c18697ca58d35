// SPDX-License-Identifier: Apache-2.0
// The shared memory between one sender and one receiver, byte for byte: a page of control words, then the ring of
// packets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_pages.h"
#include "transport/shm/piece_claims.h"
#include "transport/want_board.h"

namespace lanecast::shm {

inline constexpr std::size_t kLine = 64;  // cache line: words written by different ranks never share one

enum class PacketKind : std::uint32_t {
  none = 0,  // not written yet: what zeroed memory says
  skip,      // nothing up to the end of the ring
  eager,     // a whole message
  notice,    // a large message wants to be asked for, or read: with a short list of its spans in the sender's memory
  fragment,  // a piece of the large message under way, or the first of the next one
  piece,     // stands for a fragment that lies in the sender's outbox
  remote,    // a large message as a list of spans in the sender's memory
};

struct PacketFields {
  std::uint64_t tag;
  std::uint64_t message_bytes;
  std::uint32_t payload_bytes;  // of this packet
  std::uint32_t noticed : 1;    // a notice went ahead and has met the receive already
  std::uint32_t stamp : 31;     // of the message
};

/// Starts every packet, on a cache line of its own. A packet becomes visible by its kind, so one that fits in a line
/// costs its receiver one cache miss.
struct PacketHeader {
  std::atomic<PacketKind> kind;
  PacketFields fields;
};
static_assert(sizeof(PacketHeader) == 32 && std::atomic<PacketKind>::is_always_lock_free);

enum class ControlKind : std::uint32_t {
  none = 0,
  stream,   // a receive for `tag` is posted: send it as fragments
  read,     // the same, and the receiver would rather read the sender's memory
  taken,    // the oldest remote message has been read
  fetched,  // the one under `tag` has been read by what its notice says, without being asked for
  offered,  // the one that will be taken or fetched next may be written, too
};

/// A message that both ends may copy.
struct CopyOffer {
  ControlKind then = ControlKind::none;  // what the sender is told in the end
  std::uint32_t number = 0;              // under which its pieces are claimed
  std::byte* memory = nullptr;           // of the receiver, in one piece
};

/// Receiver to sender. A slot belongs to the receiver while its kind is none, to the sender otherwise.
struct alignas(kLine) ControlSlot {
  std::atomic<ControlKind> kind;
  std::uint64_t tag;
  CopyOffer offer;  // where the kind is `offered`
};

/// Of the rank at one end.
enum class OwnerState : std::uint32_t { open = 0, closed, aborted };

struct LaneControl {
  static constexpr std::size_t kSlots = 32;

  alignas(kLine) std::atomic<std::uint64_t> consumed_bytes;  // of the ring, ever; written by the receiver
  alignas(kLine) WantBoard wants;                            // of the receiver, from the sender
  ControlSlot slots[kSlots];
  PieceClaims claims;
};
inline constexpr std::size_t kControlBytes = 4096;  // a page, so that the ring starts on one
static_assert(sizeof(LaneControl) <= kControlBytes && std::atomic<std::uint64_t>::is_always_lock_free);

/// Where a process has mapped a lane.
struct ShmLane {
  LaneControl* control = nullptr;
  std::byte* ring = nullptr;
  std::size_t ring_bytes = 0;       // power of two
  const Mapping* memory = nullptr;  // of which the lane is a part; null: all of its pages are there

  /// Before the first look at it, at both ends: the control words, and where a short ring's packets go.
  void open() const {
    if (memory) memory->reserve(reinterpret_cast<const std::byte*>(control), kControlBytes + kOpenedBytes);
  }
  /// Of the ring; the sender reserves more as it comes to where no packet has been.
  static constexpr std::size_t kOpenedBytes = std::size_t{4} << 10;
};

}  // namespace lanecast::shm
