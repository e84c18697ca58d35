// SPDX-License-Identifier: Apache-2.0
#include "program/sliced_parts.h"

#include <algorithm>

namespace lanecast {

Slice SlicedParts::slice_of(std::int32_t part) const {
  if (shape_.counts == CountsKnown::by_pairs)
    return {gpu::longest_pair_stride(bytes_of(part), static_cast<gpu::u32>(slicing_.lanes))};
  return lanecast::slice_of(bytes_of(part), slicing_.slices());
}

std::size_t SlicedParts::most_bytes(const Pieces& message) const { return most_bytes(message, /*to_both=*/false); }

std::size_t SlicedParts::most_bytes_to_both(const Pieces& message) const {
  return most_bytes(message, /*to_both=*/true);
}

std::size_t SlicedParts::most_bytes(const Pieces& message, bool to_both) const {
  std::size_t bytes = 0;
  for (const Piece& piece : message) {
    // Either end has a bound of its own for parts that only the two know.
    const bool unbound = to_both && shape_.counts == CountsKnown::by_pairs;
    const std::size_t part = unbound ? SIZE_MAX / 2 : bytes_of(piece.part);
    const std::size_t stride =
        unbound ? gpu::longest_pair_stride(part, static_cast<gpu::u32>(slicing_.lanes)) : slice_of(piece.part).bytes;
    bytes += lanecast::most_bytes({std::min<std::size_t>(stride, whole_granules(part))}, piece);
  }
  return bytes;
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
