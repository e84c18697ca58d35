// SPDX-License-Identifier: Apache-2.0
#include "program/step_operands.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lanecast {
namespace {

/// The lists of a reduction's sources, which follow each other: each names these pieces.
BlockLists split(std::span<const Block> all, const Pieces& pieces, std::uint32_t sources) {
  BlockLists lists;
  for (std::uint32_t s = 0; s < sources; ++s) {
    std::size_t count = 0;
    for (const Piece& piece : pieces)
      for (Fraction at = piece.lo; !(at == piece.hi); ++count) at = all[count].hi;
    lists.push_back(all.first(count));
    all = all.subspan(count);
  }
  return lists;
}

/// What of the blocks lies in the pieces, both in one order.
Blocks clip(std::span<const Block> list, const Pieces& pieces) {
  Blocks clipped;
  std::size_t k = 0;
  for (const Piece& piece : pieces) {
    while (list[k].part != piece.part || list[k].hi <= piece.lo || piece.hi <= list[k].lo) ++k;
    for (; k < list.size() && list[k].part == piece.part && list[k].lo < piece.hi; ++k) {
      const Block& block = list[k];
      clipped.push_back({block.space, block.part, std::max(block.lo, piece.lo), std::min(block.hi, piece.hi)});
      if (piece.hi <= block.hi) break;
    }
  }
  return clipped;
}

}  // namespace

StepOperands::StepOperands(const Plan& plan, const ProgramShape& shape, const SlicedParts& parts,
                           const CountedRows& rows)
    : plan_(plan), shape_(shape), parts_(parts), rows_(rows) {
  std::vector<std::size_t> largest(plan.slots, 0);
  for (const Region& r : plan.regions)
    largest[r.slot] = std::max(largest[r.slot], most_bytes(parts.slice_of(r.part), {r.part, r.lo, r.hi}));
  slots_.push_back(0);
  for (const std::size_t bytes : largest) slots_.push_back(slots_.back() + in_lines(bytes));
}

Runs StepOperands::of(const Step& step) const { return aligned_runs(lists_of(step)); }

Runs StepOperands::of(const Step& step, const Pieces& share) const {
  std::vector<Blocks> clipped;
  BlockLists lists;
  for (const auto& list : lists_of(step)) clipped.push_back(clip(list, share));
  for (const Blocks& list : clipped) lists.emplace_back(list);
  return aligned_runs(lists);
}

std::vector<gpu::Operand> StepOperands::pieces_of_message(const Step& step) const {
  std::vector<gpu::Operand> pieces;
  for (const Piece& piece : message_of(plan_, step)) {
    pieces.push_back(operand({kOut, piece.part, piece.lo, piece.hi}, piece.lo, piece.hi));
    pieces.back().row = rows_.of(piece.part, gpu::Space::scratch);  // any of the part's
  }
  return pieces;
}

BlockLists StepOperands::lists_of(const Step& step) const {
  const auto src = plan_.src(step), dst = plan_.dst(step);
  switch (step.kind) {
    case StepKind::send:
      return {src};
    case StepKind::recv:
      return {dst};
    case StepKind::recv_reduce:
    case StepKind::copy:
      return {dst, src};
    default: {
      BlockLists lists{dst};
      const Pieces pieces = joined(pieces_of(dst.data(), dst.data() + dst.size()));
      for (const auto& source : split(src, pieces, step.sources)) lists.push_back(source);
      return lists;
    }
  }
}

/// The blocks of all lists, cut where any list is: all name the same pieces in the same order.
Runs StepOperands::aligned_runs(BlockLists lists) const {
  Runs runs;
  std::vector<Fraction> at;
  at.reserve(lists.size());
  for (const auto& list : lists) at.push_back(list.empty() ? kZero : list[0].lo);
  while (!lists[0].empty()) {
    Fraction hi = lists[0][0].hi;
    for (const auto& list : lists)
      if (list[0].hi < hi) hi = list[0].hi;
    std::vector<gpu::Operand> run;
    for (std::size_t k = 0; k < lists.size(); ++k) {
      run.push_back(operand(lists[k][0], at[k], hi));
      at[k] = hi;
      if (!(lists[k][0].hi == hi)) continue;
      lists[k] = lists[k].subspan(1);
      if (!lists[k].empty()) at[k] = lists[k][0].lo;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

gpu::Operand StepOperands::operand(const Block& block, Fraction lo, Fraction hi) const {
  const PartBytes& part = shape_.parts[block.part];
  gpu::Operand o{};
  o.bytes = part.bytes;
  o.stride = parts_.slice_of(block.part).bytes;
  o.row = rows_.of(block.part, block.in_scratch()   ? gpu::Space::scratch
                               : block.space == kIn ? gpu::Space::in
                                                    : gpu::Space::out);
  Fraction begin = kZero;
  if (block.in_scratch()) {
    const Region& region = plan_.regions[block.space - kScratch];
    o.space = gpu::Space::scratch;
    o.base = slots_[region.slot];
    begin = region.lo;
  } else {
    o.space = block.space == kIn ? gpu::Space::in : gpu::Space::out;
    o.base = block.space == kIn ? part.in : part.out;
  }
  const std::int64_t den = std::lcm(std::lcm(std::int64_t{lo.den}, std::int64_t{hi.den}), std::int64_t{begin.den});
  if (den > INT32_MAX) throw UsageError("program: a part is cut into more than 2^31 pieces");
  const auto of_den = [&](Fraction at) { return static_cast<gpu::u32>(at.num * (den / at.den)); };
  o.den = static_cast<gpu::u32>(den);
  o.den_log = std::has_single_bit(o.den) ? static_cast<gpu::u16>(std::countr_zero(o.den)) : gpu::u16{0};
  o.from = of_den(lo);
  o.to = of_den(hi);
  o.slot_from = of_den(begin);
  return o;
}

}  // namespace lanecast
