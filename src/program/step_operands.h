// SPDX-License-Identifier: Apache-2.0
// What the steps of a plan read and write, as a program names it: runs of operands, and scratch memory.
#pragma once

#include <vector>

#include "program/counted_rows.h"
#include "program/sliced_parts.h"

namespace lanecast {

/// Of each run: its target, where that is none of a peer's, and its sources, where those are not.
using Runs = std::vector<std::vector<gpu::Operand>>;

using BlockLists = std::vector<std::span<const Block>>;

class StepOperands {
 public:
  /// All of them outlive it.
  StepOperands(const Plan& plan, const ProgramShape& shape, const SlicedParts& parts, const CountedRows& rows);

  Runs of(const Step& step) const;
  /// Of these pieces of its message alone.
  Runs of(const Step& step, const Pieces& share) const;
  /// What the message of a step has of each part.
  std::vector<gpu::Operand> pieces_of_message(const Step& step) const;
  /// Of one generation of one lane.
  std::size_t scratch_bytes() const { return slots_.back(); }

 private:
  BlockLists lists_of(const Step& step) const;
  Runs aligned_runs(BlockLists lists) const;
  gpu::Operand operand(const Block& block, Fraction lo, Fraction hi) const;

  const Plan& plan_;
  const ProgramShape& shape_;
  const SlicedParts& parts_;
  const CountedRows& rows_;
  std::vector<std::size_t> slots_;  // offsets of scratch slots, and their end
};

}  // namespace lanecast
