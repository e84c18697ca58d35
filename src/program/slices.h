// SPDX-License-Identifier: Apache-2.0
// How parts are cut into slices, and slices at fractions: the same as the kernel that interprets programs does it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "device/gpu/kernels/program_arguments.h"
#include "plan/block.h"

namespace lanecast {

inline constexpr std::size_t kGranule = gpu::kGranule;

using gpu::in_lines;
using gpu::whole_granules;

/// Of a part: all but its last ones are of this length.
struct Slice {
  std::size_t bytes = 0;
};

inline Slice slice_of(std::size_t part_bytes, std::size_t slices) { return {gpu::stride_of(part_bytes, slices)}; }

/// Bytes in front of a fraction of so many.
inline std::size_t place(Fraction at, std::size_t bytes) {
  if (at == kOne) return bytes;
  const std::size_t granules = (bytes + kGranule - 1) / kGranule;
  return static_cast<std::size_t>(static_cast<Wide>(granules) * at.num / at.den) * kGranule;
}

/// Of a piece in any slice: in shorter ones it may be a granule longer.
inline std::size_t most_bytes(Slice slice, const Piece& piece) {
  if (slice.bytes == 0) return 0;
  return std::min(place(piece.hi, slice.bytes) - place(piece.lo, slice.bytes) + kGranule, slice.bytes);
}

}  // namespace lanecast
