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
  std::size_t ranks = 0;       // of the host
  std::size_t ring_bytes = 0;  // a power of two
  // Up to here a message leaves at once; larger ones wait to be asked for.
  std::size_t eager_bytes = 0;           // of what is added, or comes from several ranks to one: nobody reads that
  std::size_t readable_eager_bytes = 0;  // of what its receiver may rather read
  std::size_t shared_eager_bytes = 0;    // of what may go to several ranks
  std::size_t fragment_bytes = 0;        // payload of a packet of a large message at least, a multiple of 64
  std::size_t packet_bytes = 0;          // and at most
  std::size_t through_ring_bytes = 0;    // up to here a message for one receiver alone goes through its ring
  std::size_t least_piece_bytes = 0;     // of a long message
  std::size_t piece_bytes = 0;           // and at most, a multiple
  std::size_t outbox_places = 0;         // 0 where a rank has only one peer
  bool operator==(const ShmLayout&) const = default;

  bool is_large(const Message& message) const {
    if (message.kind && may_multiply(*message.kind)) return message.bytes > shared_eager_bytes;
    const bool stays = may_be_sums(message) || message.kind == Kind::gather;
    return message.bytes > (stays ? eager_bytes : readable_eager_bytes);
  }
  /// Does its notice tell where it lies, as far as that takes no line more? Of what may go to several peers its sender
  /// decides later whether it is read.
  bool notice_tells(const Message& message) const {
    return outbox_places == 0 || (message.kind && !may_multiply(*message.kind));
  }
  /// Does its sender choose whether it leaves at once or is read by what its notice tells? That spares one copy of two,
  /// and takes words there and back.
  bool is_medium(const Message& message) const {
    return outbox_places == 0 && !is_large(message) && may_be_read_unasked(message);
  }
};

/// The layout when `ranks` ranks share a host.
ShmLayout layout_for(std::size_t ranks, const ShmOptions& options);

}  // namespace lanecast::shm
