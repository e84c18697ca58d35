// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/layout.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"
#include "transport/shm/outbox.h"

namespace lanecast::shm {

namespace {

// Of all rings of a host, and of all outboxes. Among up to 8 ranks of a host, a communicator then takes less than 8
// MiB, whatever it is used for.
constexpr std::size_t kFewRanks = 8;
constexpr std::size_t kBudgetBytes = std::size_t{4} << 20;
// Of all rings of more ranks, up to 64. By 16 ranks, reduces of 256 KiB in rings of 64 KiB took 1.4 times as long.
constexpr std::size_t kRingsOfManyBytes = std::size_t{64} << 20;
constexpr std::size_t kSmallestRingBytes = std::size_t{16} << 10;
// Among so many ranks, a ring of such a length serves long messages better than an outbox of 512 KiB does: by 16 ranks,
// calls of 64 KiB to 4 MiB take 0.985 of the time. By 4 ranks they take as long either way.
constexpr std::size_t kLongRingBytes = std::size_t{256} << 10;
// Between two ranks on 16 cores (L2 of 2 MiB), all that a sender writes had best be 256 KiB or more: with 128 KiB, also
// of a longer ring, messages of 16 to 256 KiB took 1.2 to 1.5 times as long. A ring of 2 MiB was no faster.
constexpr std::size_t kLargestRingBytes = std::size_t{512} << 10;
// In few and long pieces: each piece is a turn of its sender and of every receiver, and all outboxes of a host should
// fit into its cache. By 4 ranks on two cores, all-gathers of 64 MiB took 14 ms in 8 pieces of 256 KiB, and 30 ms in
// pieces of 32 KiB.
constexpr std::size_t kSmallestOutboxBytes = std::size_t{512} << 10, kLargestOutboxBytes = std::size_t{1} << 20;
constexpr std::size_t kLeastEagerBytes = std::size_t{8} << 10, kMostEagerBytes = std::size_t{64} << 10;
constexpr std::size_t kPieces = 8;     // of the longest, that find place in an outbox
constexpr std::size_t kMostUnits = 8;  // in a piece

std::size_t ring_bytes_for(std::size_t ranks, std::size_t wish) {
  const std::size_t lanes = std::max(ranks * (ranks - 1), std::size_t{1});
  if (wish == 0 && ranks <= kFewRanks)
    return std::bit_floor(std::clamp(kBudgetBytes / lanes, kSmallestRingBytes, kLargestRingBytes));
  if (wish == 0) return std::bit_floor(std::clamp(kRingsOfManyBytes / lanes, kSmallestRingBytes, kLongRingBytes));
  if (wish < kSmallestRingBytes || !std::has_single_bit(wish))
    throw UsageError("ShmOptions::ring_bytes is " + std::to_string(wish) + "; it has to be a power of two from " +
                     std::to_string(kSmallestRingBytes) + " on");
  return wish;
}

std::size_t eager_bytes_for(std::size_t ring_bytes, std::size_t wish) {
  const std::size_t suited = std::clamp(ring_bytes / 4, kLeastEagerBytes, kMostEagerBytes);
  return std::min(wish > 0 ? wish : suited, ring_bytes / 3);
}

/// Of what is only moved. What costs more to copy twice than to ask for is better read; for several ranks it is copied
/// `copies` times more. Of two ranks the sender may have it read.
std::size_t eager_bytes_of_moved(std::size_t ranks, std::size_t copies, const ShmOptions& options, std::size_t most) {
  if (options.eager_bytes > 0 || ranks <= 2) return most;
  return std::min(std::max(kAskingBytes / copies, kLeastEagerBytes), most);
}

}  // namespace

ShmLayout layout_for(std::size_t ranks, const ShmOptions& options) {
  const std::size_t ring_bytes = ring_bytes_for(ranks, options.ring_bytes);
  // A packet of a stream takes at most a quarter of the ring; with their headers, fragments fill a ring without a rest.
  const std::size_t quarter = ring_bytes / 4;
  const std::size_t least_packet = std::bit_floor(std::clamp(options.fragment_bytes, std::size_t{1024}, quarter));
  const std::size_t fragment_bytes = least_packet - kLine;
  const std::size_t outbox_bytes =
      std::bit_floor(std::clamp(kBudgetBytes / ranks, kSmallestOutboxBytes, kLargestOutboxBytes));
  // Of a piece: more than a short ring's packet, since each piece costs its notes.
  const std::size_t unit =
      std::bit_floor(std::clamp(options.fragment_bytes, least_packet, std::max(least_packet, outbox_bytes / kPieces)));
  const std::size_t units = std::clamp(outbox_bytes / kPieces / unit, std::size_t{1}, kMostUnits);
  // Through rings alone a piece is whole packets, beside an outbox whole units.
  const std::size_t piece = ranks > 2 ? unit : unit - kLine;
  const bool through_rings = ranks > kFewRanks && ring_bytes >= kLongRingBytes;
  // A power of two, so that pieces have no rest.
  const std::size_t packet = through_rings ? quarter : (quarter - kLine) / fragment_bytes * fragment_bytes;
  const std::size_t eager_bytes = eager_bytes_for(ring_bytes, options.eager_bytes);
  const std::size_t places = ranks > 2 ? std::max(outbox_bytes, kPieces * unit) / kPlaceBytes : 0;
  return {.ranks = ranks,
          .ring_bytes = ring_bytes,
          .eager_bytes = eager_bytes,
          .readable_eager_bytes = eager_bytes_of_moved(ranks, 1, options, eager_bytes),
          .shared_eager_bytes = eager_bytes_of_moved(ranks, ranks - 2, options, eager_bytes),
          .fragment_bytes = fragment_bytes,
          .packet_bytes = packet,
          .through_ring_bytes = through_rings ? SIZE_MAX : packet,
          .least_piece_bytes = piece,
          .piece_bytes = units * piece,
          .outbox_places = places};
}

}  // namespace lanecast::shm
