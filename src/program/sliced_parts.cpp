// SPDX-License-Identifier: Apache-2.0
#include "program/sliced_parts.h"

#include <algorithm>

namespace lanecast {

Slice SlicedParts::slice_of(std::int32_t part) const {
  if (shape_.slice_bytes != 0) return {shape_.slice_bytes};
  return lanecast::slice_of(bytes_of(part), slicing_.slices());
}

std::size_t SlicedParts::most_bytes(const Pieces& message) const {
  std::size_t bytes = 0;
  for (const Piece& piece : message)
    bytes += lanecast::most_bytes({std::min(slice_of(piece.part).bytes, whole_granules(bytes_of(piece.part)))}, piece);
  return bytes;
}

std::uint32_t SlicedParts::chunks_of(const Pieces& message) const {
  if (shape_.slice_bytes == 0) return static_cast<std::uint32_t>(slicing_.chunks);
  const std::size_t of_lanes = shape_.slice_bytes * static_cast<std::size_t>(slicing_.lanes);
  std::size_t chunks = 0;
  for (const Piece& piece : message) chunks = std::max(chunks, (bytes_of(piece.part) + of_lanes - 1) / of_lanes);
  return static_cast<std::uint32_t>(chunks);
}

Pieces message_of(const Plan& plan, const Step& step) {
  const auto blocks = step.kind == StepKind::send ? plan.src(step) : plan.dst(step);
  return joined(pieces_of(blocks.data(), blocks.data() + blocks.size()));
}

std::size_t longest_message(const Plan& plan, const std::vector<PartBytes>& parts, std::size_t slices) {
  std::size_t longest = 0;
  for (const Step& step : plan.steps) {
    if (!talks(step)) continue;
    std::size_t bytes = 0;
    for (const Block& block : step.kind == StepKind::send ? plan.src(step) : plan.dst(step))
      bytes += most_bytes(slice_of(parts[block.part].bytes, slices), block.piece());
    longest = std::max(longest, bytes);
  }
  return longest;
}

}  // namespace lanecast
