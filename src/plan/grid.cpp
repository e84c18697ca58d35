// SPDX-License-Identifier: Apache-2.0
#include "plan/grid.h"

#include <algorithm>

#include "plan/composition.h"

namespace lanecast {

Grid::Grid(std::span<const Plan> plans, const Composition* cut_by) {
  for (const Plan& plan : plans) {
    for (const Block& b : plan.blocks) {
      add(b.part, b.lo);
      add(b.part, b.hi);
    }
    for (const Region& r : plan.regions) {
      add(r.part, r.lo);
      add(r.part, r.hi);
    }
  }
  if (cut_by)
    for (const Primitive& p : cut_by->primitives())
      for (const Piece& piece : cut_by->pieces(p)) {
        add(piece.part, piece.lo);
        add(piece.part, piece.hi);
      }
  place_.resize(cuts_.size());
  const auto cut = [&](std::uint32_t k) { return Fraction{cuts_[k].b, cuts_[k].c}; };
  for (auto& cuts : cuts_of_) {
    std::sort(cuts.begin(), cuts.end(), [&](std::uint32_t x, std::uint32_t y) { return cut(x) < cut(y); });
    for (std::size_t k = 0; k < cuts.size(); ++k) place_[cuts[k]] = static_cast<std::uint32_t>(k) + 1;
  }
}

void Grid::add(std::int32_t part, Fraction cut) {
  if (cut == kZero || cut == kOne) return;
  const std::size_t known = cuts_.size();
  const std::uint32_t number = cuts_.add({part, cut.num, cut.den});
  if (number < known) return;
  const std::uint32_t k = cut_parts_.add({part, 0, 0});
  if (k == cuts_of_.size()) cuts_of_.emplace_back();
  cuts_of_[k].push_back(number);
}

std::uint32_t Grid::before(std::int32_t part, Fraction cut) const {
  if (cut == kZero) return 0;
  if (!(cut == kOne)) return place_[cuts_.find({part, cut.num, cut.den})];
  const std::uint32_t k = cut_parts_.find({part, 0, 0});
  return k == Numbering::kNone ? 1 : static_cast<std::uint32_t>(cuts_of_[k].size()) + 1;
}

Piece Grid::piece(std::int32_t part, std::uint32_t cell) const {
  Piece piece{part, kZero, kOne};
  const std::uint32_t k = cut_parts_.find({part, 0, 0});
  if (k == Numbering::kNone) return piece;
  const auto cut = [&](std::uint32_t at) { return Fraction{cuts_[cuts_of_[k][at]].b, cuts_[cuts_of_[k][at]].c}; };
  if (cell > 0) piece.lo = cut(cell - 1);
  if (cell < cuts_of_[k].size()) piece.hi = cut(cell);
  return piece;
}

CellMemory::CellMemory(const Plan& plan, const Grid& grid) : plan_(plan), grid_(grid) {
  const auto bring = [&](std::int32_t space, PartRange parts) {
    for (std::int32_t k = 0; k < parts.count; ++k) place(plan.collective.home(plan.rank, space, parts[k]), parts[k]);
  };
  bring(kIn, plan.collective.inputs(plan.rank));
  bring(kOut, plan.collective.outputs(plan.rank));
  cells_.reserve(plan.blocks.size());
  for (const Block& b : plan.blocks) {
    const std::uint32_t first = first_[place(plan.collective.home(plan.rank, b.space, b.part), b.part)];
    const std::uint32_t lo = grid.before(b.part, b.lo);
    const std::uint32_t origin = b.in_scratch() ? grid.before(b.part, plan.regions[b.space - kScratch].lo) : 0;
    cells_.push_back({first + lo - origin, grid.before(b.part, b.hi) - lo});
  }
}

std::uint32_t CellMemory::place(std::int32_t space, std::int32_t part) {
  const std::uint32_t number = places_.add({space, part, 0});
  if (number == first_.size()) {
    first_.push_back(size_);
    size_ += at(number).count;
  }
  return number;
}

Cells CellMemory::at(std::uint32_t place) const {
  const auto& [space, part, unused] = places_[place];
  if (space < kScratch) return {first_[place], grid_.cells(part)};
  const Region& r = plan_.regions[space - kScratch];
  return {first_[place], grid_.before(part, r.hi) - grid_.before(part, r.lo)};
}

Cells CellMemory::part(std::int32_t space, std::int32_t part) const {
  const std::uint32_t known = places_.find({plan_.collective.home(plan_.rank, space, part), part, 0});
  return known == Numbering::kNone ? Cells{} : at(known);
}

Cells CellMemory::region(std::int32_t region) const {
  const std::uint32_t known = places_.find({kScratch + region, plan_.regions[region].part, 0});
  return known == Numbering::kNone ? Cells{} : at(known);
}

}  // namespace lanecast
