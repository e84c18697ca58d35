// SPDX-License-Identifier: Apache-2.0
// What can be set about the shared-memory transport; equal on all ranks of a host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lanecast {

/// May a large message be copied straight from the sender's process to the receiver's? `automatic`: where the receiver
/// finds that faster than two copies through shared memory, as messages go by.
enum class SingleCopy : std::uint8_t { automatic, on, off };

struct ShmOptions {
  std::size_t ring_bytes = 0;          // per ordered pair of ranks, a power of two; 0: shm::ring_bytes_for(ranks)
  std::size_t eager_bytes = 0;         // messages up to here leave unasked; 0: as suits so many ranks and the call
  std::size_t fragment_bytes = 32768;  // larger ones travel in packets of this size at least
  SingleCopy single_copy = SingleCopy::automatic;
  /// A receiver is far where ordinary stores of what it reads cost so many times what others do, past the cache. Near
  /// cores were seen at up to 3.2, far ones at 8 to 12. Below 0: all receivers are.
  double far_from = 4;
};

}  // namespace lanecast
