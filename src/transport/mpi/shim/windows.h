// SPDX-License-Identifier: Apache-2.0
// Collectives of 2^31 elements and more on a library whose counts are ints: a row of smaller ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "transport/mpi/shim/collective.h"

namespace lanecast::mpi {

/// Cuts the whole vector, over all members' shares, into windows; in each, a member's share is what it has there. The
/// windows are calls of the same kind. Not for an in-place reduce-scatter, whose result would lie before each window,
/// nor for what goes_by_messages().
template <class Each>
void for_each_window(const MpiCollective& call, int rank, Each each) {
  constexpr std::size_t kWindow = std::size_t{1} << 30;  // elements
  const std::size_t element_bytes = size_of(call.dtype);
  const std::size_t total = total_count(call);
  std::vector<std::size_t> counts(call.counts.size());
  std::size_t mine = 0;  // elements of this rank's share before the window
  for (std::size_t begin = 0; begin < total; begin += kWindow) {
    const std::size_t end = std::min(total, begin + kWindow);
    std::size_t share = 0;
    for (std::size_t member = 0; member < counts.size(); ++member) {
      const std::size_t first = std::clamp(share, begin, end);
      share += call.counts[member];
      counts[member] = std::clamp(share, begin, end) - first;
    }
    MpiCollective window = call;
    window.counts = counts;
    if (!call.in_place && call.in != nullptr)
      window.in =
          static_cast<const std::byte*>(call.in) + (call.kind == Kind::all_gather ? mine : begin) * element_bytes;
    if (call.out != nullptr)
      window.out =
          static_cast<std::byte*>(call.out) + (call.kind == Kind::reduce_scatter ? mine : begin) * element_bytes;
    each(window);
    if (call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter) mine += counts[rank];
  }
}

}  // namespace lanecast::mpi
