// SPDX-License-Identifier: Apache-2.0
// What a composition promises, found by taking its primitives at their word, one after the other, on every rank.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/composition.h"
#include "plan/grid.h"
#include "plan/term.h"

namespace lanecast {

/// A part, or one cell of it.
struct CellScope {
  std::int32_t part = 0;
  std::optional<std::uint32_t> cell;
};

template <class Algebra>
class Meaning {
 public:
  /// only: what is followed, where not everything is.
  Meaning(const Composition& composition, const Grid& grid, const Algebra& algebra, std::optional<CellScope> only)
      : composition_(composition), grid_(grid), algebra_(algebra), only_(only) {
    for (int r = 0; r < composition.size(); ++r) {
      const PartRange inputs = composition.inputs(r);
      for (std::int32_t k = 0; k < inputs.count; ++k) {
        if (only_ && only_->part != inputs[k]) continue;
        const std::uint32_t first = place(r, inputs[k]);
        for (std::uint32_t c = 0; c < grid_.cells(inputs[k]); ++c) values_[first + c].value = algebra_.of(r);
      }
    }
    std::int32_t step = 0;
    for (const Primitive& p : composition.primitives()) {
      if (p.step != step) fence();
      step = p.step;
      take(p);
    }
    fence();
  }

  const Term<Algebra>& of(int rank, std::int32_t part, std::uint32_t cell) const {
    return values_[first_[places_.find({rank, part, 0})] + cell];
  }

 private:
  std::uint32_t place(int rank, std::int32_t part) {
    const std::uint32_t number = places_.add({rank, part, 0});
    if (number == first_.size()) {
      first_.push_back(static_cast<std::uint32_t>(values_.size()));
      values_.resize(values_.size() + grid_.cells(part));
    }
    return first_[number];
  }

  void take(const Primitive& p) {
    for (const Piece& piece : composition_.pieces(p)) {
      if (only_ && only_->part != piece.part) continue;
      for (std::uint32_t c = grid_.before(piece.part, piece.lo); c < grid_.before(piece.part, piece.hi); ++c)
        if (!only_ || c == only_->cell.value_or(c)) take(p, piece.part, c);
    }
  }

  void take(const Primitive& p, std::int32_t part, std::uint32_t cell) {
    const auto leaves = composition_.leaves(p);
    if (p.kind == Primitive::Action::multicast) {
      const Term<Algebra> value = of(p.root, part, cell);
      for (const int leaf : leaves) fresh_.emplace_back(place(leaf, part) + cell, value);
      return;
    }
    std::vector<Term<Algebra>> sources;
    sources.reserve(leaves.size());
    for (const int leaf : leaves) sources.push_back(of(leaf, part, cell));
    const std::span<const Term<Algebra>> all(sources);
    Term<Algebra> sum =
        reduced(algebra_, all, static_cast<std::int8_t>(p.op), [](auto s) { return Algebra::reduce(s); });
    if (p.op == ReduceOp::avg && leaves.size() > 1) sum.divisor = static_cast<std::uint32_t>(leaves.size());
    fresh_.emplace_back(place(p.root, part) + cell, std::move(sum));
  }

  void fence() {
    for (auto& [at, value] : fresh_) values_[at] = std::move(value);
    fresh_.clear();
  }

  const Composition& composition_;
  const Grid& grid_;
  const Algebra& algebra_;
  std::optional<CellScope> only_;
  Numbering places_;                                            // (rank, part)
  std::vector<std::uint32_t> first_;                            // cell of each place
  std::vector<Term<Algebra>> values_;                           // before the step
  std::vector<std::pair<std::uint32_t, Term<Algebra>>> fresh_;  // that the step writes
};

}  // namespace lanecast
