// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/layout.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.h"
#include "transport/shm/lane.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kBudgetBytes = std::size_t{64} << 20;
constexpr std::size_t kSmallestRingBytes = std::size_t{16} << 10;
// A line fetched from the cache of the sender's core comes about four times slower than one that has moved on to the
// cache both cores share. A ring beyond a core's own cache (1 MiB on today's servers) has most lines there.
constexpr std::size_t kLargestRingBytes = std::size_t{2} << 20;
// An outbox no larger than that, in few and long pieces: each piece is a turn of its sender and of every receiver, and
// all outboxes of a host should fit into its cache. By 4 ranks on two cores, all-gathers of 64 MiB took 14 ms in 8
// pieces of 256 KiB, 17 to 22 ms in 16 or 32 of them, and 30 ms in pieces of 32 KiB.
constexpr std::size_t kLargestOutboxBytes = std::size_t{2} << 20;
constexpr std::size_t kPlaces = 8;
constexpr std::size_t kMostFragments = 8;  // in a piece

std::size_t ring_bytes_for(std::size_t ranks, std::size_t wish) {
  if (wish == 0)
    return std::bit_floor(std::clamp(kBudgetBytes / (ranks * ranks), kSmallestRingBytes, kLargestRingBytes));
  if (wish < kSmallestRingBytes || !std::has_single_bit(wish))
    throw UsageError("ShmOptions::ring_bytes is " + std::to_string(wish) + "; it has to be a power of two from " +
                     std::to_string(kSmallestRingBytes) + " on");
  return wish;
}

}  // namespace

Layout layout_for(std::size_t ranks, const ShmOptions& options) {
  const std::size_t ring_bytes = ring_bytes_for(ranks, options.ring_bytes);
  // A packet takes at most a quarter of the ring; with their headers, fragments fill a ring without a rest.
  const std::size_t quarter = ring_bytes / 4;
  const std::size_t least_packet = std::bit_floor(std::clamp(options.fragment_bytes, std::size_t{1024}, quarter));
  const std::size_t fragment_bytes = least_packet - kLine;
  const std::size_t outbox_bytes = std::bit_floor(std::min(kBudgetBytes / ranks, kLargestOutboxBytes));
  const std::size_t fragments = std::clamp(outbox_bytes / kPlaces / least_packet, std::size_t{1}, kMostFragments);
  const std::size_t places = ranks > 2 ? std::max(outbox_bytes / (fragments * least_packet), kPlaces) : 0;
  return {.ranks = ranks,
          .ring_bytes = ring_bytes,
          .eager_bytes = std::min(options.eager_bytes, fragment_bytes),
          .fragment_bytes = fragment_bytes,
          .packet_bytes = (quarter - kLine) / fragment_bytes * fragment_bytes,
          .piece_bytes = fragments * fragment_bytes,
          .outbox_places = places};
}

}  // namespace lanecast::shm
