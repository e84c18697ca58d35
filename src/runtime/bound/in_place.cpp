// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/in_place.h"

#include "base/error.h"

namespace lanecast {
namespace {

struct PartMemory {
  std::int32_t part;
  const std::byte *first, *last;
};

/// The parts that have elements, by ascending address. Throws UsageError where there are some, but no buffer.
std::vector<PartMemory> places(PartRange parts, const Shape& shape, const void* buffer, const char* name) {
  std::vector<PartMemory> places;
  const auto* at = static_cast<const std::byte*>(buffer);
  for (std::int32_t k = 0; k < parts.count; ++k) {
    const std::size_t count = shape.counts.empty() ? shape.count : shape.counts[parts[k]];
    if (count == 0) continue;
    if (!buffer) throw UsageError(std::string(name) + ": null pointer");
    places.push_back({parts[k], at, at + count * size_of(shape.dtype)});
    at = places.back().last;
  }
  return places;
}

}  // namespace

bool lies_in_place(const Collective& collective, int rank, const Shape& shape, const void* in, const void* out) {
  const PartRange outputs = collective.outputs(rank);
  const auto brought = places(collective.inputs(rank), shape, in, "input"),
             kept = places(outputs, shape, out, "output");
  bool shared = false, apart = false;
  std::size_t k = 0;
  for (const PartMemory& i : brought) {
    while (k < kept.size() && kept[k].last <= i.first) ++k;
    const bool meets = k < kept.size() && kept[k].first < i.last;
    const bool same = meets && kept[k].part == i.part && kept[k].first == i.first;
    if (meets && !same)
      throw UsageError("input and output overlap: part " + std::to_string(i.part) +
                       " of the input lies where the output has part " + std::to_string(kept[k].part));
    shared |= same;
    apart |= !same && outputs.has(i.part);
  }
  if (shared && apart)
    throw UsageError("input and output overlap in some of the parts that they have in common, not in all");
  return shared;
}

}  // namespace lanecast
