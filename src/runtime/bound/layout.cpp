// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/layout.h"

#include <algorithm>

namespace lanecast {
namespace {

constexpr std::size_t kSlotAlignment = 64;  // a cache line

}  // namespace

Layout::Layout(const Plan& plan, const Shape& shape)
    : plan_(plan),
      shape_(shape),
      element_bytes_(size_of(shape.dtype)),
      inputs_(plan.collective.inputs(plan.rank)),
      outputs_(plan.collective.outputs(plan.rank)),
      in_(offsets(inputs_)),
      out_(offsets(outputs_)) {
  std::vector<std::size_t> largest(plan.slots, 0);
  for (const Region& r : plan.regions) {
    // Chunks of a part differ by an element at most, so one more than the first chunk's is enough for all.
    const std::size_t count = elements({r.part, r.lo, r.hi}, shape.chunk(0)) + (shape.chunk(0).count > 1 ? 2 : 0);
    largest[r.slot] = std::max(largest[r.slot], count * element_bytes_);
  }
  slots_.push_back(0);
  for (std::size_t bytes : largest)
    slots_.push_back(slots_.back() + (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment);
}

std::size_t Layout::count_of(std::int32_t part) const {
  if (!shape_.own_counts()) return shape_.counts.empty() ? shape_.count : shape_.counts[part];
  if (inputs_.has(part)) return shape_.send_counts[inputs_.index(part)];
  return outputs_.has(part) ? shape_.recv_counts[outputs_.index(part)] : 0;
}

/// Bytes in front of each part of a buffer, with the total at the end.
std::vector<std::size_t> Layout::offsets(PartRange parts) const {
  std::vector<std::size_t> at{0};
  for (std::int32_t k = 0; k < parts.count; ++k) at.push_back(at.back() + count_of(parts[k]) * element_bytes_);
  return at;
}

Layout::Cut Layout::cut(std::int32_t part, Chunk chunk) const {
  const std::size_t count = count_of(part);
  if (shape_.piece == 0) return {count, chunk};
  const auto pieces = static_cast<std::int32_t>(pieces_of(count, shape_.piece));
  return chunk.index < pieces ? Cut{count, {chunk.index, pieces}} : Cut{};
}

std::size_t Layout::elements(const Piece& piece, Chunk chunk) const {
  const Cut cut = this->cut(piece.part, chunk);
  return position(piece.hi, cut.chunk, cut.count) - position(piece.lo, cut.chunk, cut.count);
}

Layout::Place Layout::place(const Block& block, Chunk whole) const {
  const auto [count, chunk] = cut(block.part, whole);
  const std::size_t lo = position(block.lo, chunk, count), hi = position(block.hi, chunk, count);
  const std::size_t bytes = (hi - lo) * element_bytes_;
  if (block.space == kIn) return {kIn, in_[inputs_.index(block.part)] + lo * element_bytes_, bytes};
  if (block.space == kOut) return {kOut, out_[outputs_.index(block.part)] + lo * element_bytes_, bytes};
  const Region& region = plan_.regions[block.space - kScratch];
  const std::size_t start = position(region.lo, chunk, count);
  return {kScratch, slots_[region.slot] + (lo - start) * element_bytes_, bytes};
}

void BoundSteps::bind(const Plan& plan, const Layout& layout, Chunk chunk) {
  // At most so many: what grows by doubling keeps up to twice of that, for each chunk in flight.
  places_.reserve(plan.blocks.size());
  first_.reserve(2 * plan.steps.size() + 1);
  bytes_.reserve(2 * plan.steps.size());
  places_.clear();
  first_.assign(1, 0);
  bytes_.clear();
  for (const Step& step : plan.steps)
    for (const auto& blocks : {plan.src(step), plan.dst(step)}) {
      std::size_t bytes = 0;
      const std::size_t first = places_.size();
      for (const Block& block : blocks) {
        const Layout::Place place = layout.place(block, chunk);
        if (place.bytes == 0) continue;
        bytes += place.bytes;
        const bool follows = places_.size() > first && places_.back().space == place.space &&
                             places_.back().offset + places_.back().bytes == place.offset;
        if (follows)
          places_.back().bytes += place.bytes;
        else
          places_.push_back(place);
      }
      first_.push_back(static_cast<std::uint32_t>(places_.size()));
      bytes_.push_back(bytes);
    }
  spans_.resize(places_.size());
}

void BoundSteps::locate(const std::array<std::byte*, 3>& bases) {
  for (std::size_t k = 0; k < places_.size(); ++k)
    spans_[k] = {bases[places_[k].space] + places_[k].offset, places_[k].bytes};
}

}  // namespace lanecast
