// SPDX-License-Identifier: Apache-2.0
// Cuts every part wherever a block of some plan begins or ends. Between two cuts nothing can differ, so a plan bound to
// these cells, as an executor binds it to elements, shows in flat arrays all that it does to any number of elements.
#pragma once

#include <span>
#include <vector>

#include "plan/numbering.h"
#include "plan/plan.h"

namespace lanecast {

class Grid {
 public:
  /// cut_by: its pieces cut, too, where it is given.
  explicit Grid(std::span<const Plan> plans, const Composition* cut_by = nullptr);

  /// Cells before a cut that some block names.
  std::uint32_t before(std::int32_t part, Fraction cut) const;
  std::uint32_t cells(std::int32_t part) const { return before(part, kOne); }
  /// What a cell is called.
  Piece piece(std::int32_t part, std::uint32_t cell) const;

 private:
  void add(std::int32_t part, Fraction cut);

  Numbering cuts_;                                   // (part, numerator, denominator), without 0 and 1
  std::vector<std::uint32_t> place_;                 // of each cut: cells before it
  Numbering cut_parts_;                              // parts that have cuts
  std::vector<std::vector<std::uint32_t>> cuts_of_;  // of those parts, ascending
};

/// Neighbouring cells of one rank's memory.
struct Cells {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// A rank's input, output (where it is not the input's memory) and scratch regions as one array of cells.
class CellMemory {
 public:
  CellMemory(const Plan& plan, const Grid& grid);

  std::span<const Cells> src(const Step& step) const { return {cells_.data() + step.src.first, step.src.count}; }
  std::span<const Cells> dst(const Step& step) const { return {cells_.data() + step.dst.first, step.dst.count}; }
  std::size_t size() const { return size_; }

  /// The whole part where it lies at home; empty where neither a step nor the collective knows it there.
  Cells part(std::int32_t space, std::int32_t part) const;
  Cells region(std::int32_t region) const;

 private:
  std::uint32_t place(std::int32_t space, std::int32_t part);
  Cells at(std::uint32_t place) const;

  const Plan& plan_;
  const Grid& grid_;
  Numbering places_;                  // (space, part)
  std::vector<std::uint32_t> first_;  // cell of each place
  std::uint32_t size_ = 0;
  std::vector<Cells> cells_;  // of Plan::blocks
};

}  // namespace lanecast
