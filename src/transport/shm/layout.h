// SPDX-License-Identifier: Apache-2.0
// How large the parts of a lane are; equal at both of its ends.
#pragma once

#include <cstddef>

#include "transport/shm/options.h"
#include "transport/shm/way.h"

namespace lanecast::shm {

/// A message that is asked for first costs its two ranks about as much time as copying so many bytes.
inline constexpr std::size_t kAskingBytes = std::size_t{32} << 10;

struct ShmLayout {
  std::size_t ranks = 0;               // of the host
  std::size_t ring_bytes = 0;          // a power of two
  std::size_t eager_bytes = 0;         // up to here a message leaves at once; larger ones wait to be asked for
  std::size_t fragment_bytes = 0;      // payload of a packet of a large message at least, a multiple of 64
  std::size_t packet_bytes = 0;        // and at most
  std::size_t through_ring_bytes = 0;  // up to here a message for one receiver alone goes through its ring
  std::size_t least_piece_bytes = 0;   // of a long message
  std::size_t piece_bytes = 0;         // and at most, a multiple
  std::size_t outbox_places = 0;       // 0 where a rank has only one peer
  bool operator==(const ShmLayout&) const = default;

  /// Does a notice tell where the message lies, as far as that takes no line more? Where a message may go to several
  /// peers, its sender decides later whether it is read.
  bool notices_tell() const { return outbox_places == 0; }
  /// Does its sender choose whether it leaves at once or is read by what its notice tells? That spares one copy of two,
  /// and takes words there and back.
  bool is_medium(const Message& message) const {
    return notices_tell() && message.bytes > kAskingBytes && message.bytes <= eager_bytes &&
           may_be_read_unasked(message);
  }
};

/// The layout when `ranks` ranks share a host.
ShmLayout layout_for(std::size_t ranks, const ShmOptions& options);

}  // namespace lanecast::shm
