// SPDX-License-Identifier: Apache-2.0
// Follows every value through a run of the plans, in whatever algebra: numbers, sets or expressions. Needs plans that
// check_structure() and match() have passed: then the cells on both sides of a step and of a message correspond.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/algebras.h"
#include "plan/grid.h"
#include "plan/meaning.h"
#include "plan/verify.h"

namespace lanecast {

struct FlowContext {
  const std::vector<Plan>& plans;
  const Matching& matching;
  const Grid& grid;
  const std::vector<CellMemory>& memories;  // of each rank
};

template <class Algebra>
class Flow {
 public:
  using Value = Algebra::Value;

  struct Content {
    Term<Algebra> term;
    std::uint32_t step = Matching::kNone;  // that wrote it
    bool written = false;
  };

  /// only: follows this cell of the grid and nothing else.
  Flow(const FlowContext& context, Algebra algebra, std::optional<Piece> only)
      : context_(context), algebra_(std::move(algebra)), only_(only) {
    for (const Plan& plan : context_.plans) {
      const CellMemory& memory = context_.memories[plan.rank];
      auto& contents = contents_.emplace_back(memory.size());
      const PartRange inputs = plan.collective.inputs(plan.rank);
      for (std::int32_t p = 0; p < inputs.count; ++p) {
        const std::int32_t part = inputs[p];
        const Cells cells = memory.part(kIn, part);
        for (std::uint32_t k = 0; k < cells.count; ++k) {
          contents[cells.first + k].written = true;
          if (!only_) contents[cells.first + k].term.value = algebra_.of(plan.rank);
        }
        if (only_ && only_->part == part)
          contents[cells.first + context_.grid.before(part, only_->lo)].term.value = algebra_.of(plan.rank);
      }
    }
  }

  void happens(int rank, std::uint32_t i) {
    const Plan& plan = context_.plans[rank];
    const Step& step = plan.steps[i];
    const std::uint32_t partner = context_.matching.partner[rank][i];
    sources_.clear();
    switch (step.kind) {
      case StepKind::copy:
        read(rank, i);
        return write(rank, i);
      case StepKind::reduce:
        read(rank, i);
        reduce(rank, i, step.sources, [](auto s) { return Algebra::reduce(s); });
        complete(rank, i);
        return write(rank, i);
      case StepKind::recv:
        read(step.peer, partner);
        return write(rank, i);
      case StepKind::recv_reduce:
        read(rank, i);
        read(step.peer, partner);
        reduce(rank, i, 2, [](auto s) { return Algebra::reduce(s); });
        complete(rank, i);
        return write(rank, i);
      case StepKind::group:
        return group(context_.matching.calls[partner], plan.groups[step.group]);
      case StepKind::send:
        return;  // the receiver's step stands for both
    }
  }

  /// First output place whose value is not what the collective promises.
  struct Wrong {
    int rank;
    Piece piece;
    Content content;
    Term<Algebra> expected;
  };
  std::optional<Wrong> first_wrong() const {
    const Composition* const composed = context_.plans[0].collective.composition.get();
    std::optional<Meaning<Algebra>> meaning;
    std::optional<CellScope> scope;
    if (only_) scope.emplace(only_->part, context_.grid.before(only_->part, only_->lo));
    if (composed) meaning.emplace(*composed, context_.grid, algebra_, scope);
    for (const Plan& plan : context_.plans) {
      const PartRange outputs = plan.collective.outputs(plan.rank);
      for (std::int32_t p = 0; p < outputs.count; ++p) {
        const std::int32_t part = outputs[p];
        Term<Algebra> expected = composed ? Term<Algebra>{} : promised(plan.collective, part);
        const Cells cells = context_.memories[plan.rank].part(kOut, part);
        for (std::uint32_t k = 0; k < cells.count; ++k) {
          const Content& content = contents_[plan.rank][cells.first + k];
          if (composed && scope && (scope->part != part || scope->cell != k)) continue;
          if (meaning) expected = meaning->of(plan.rank, part, k);
          if (content.written && content.term == expected) continue;
          const Piece piece = context_.grid.piece(part, k);
          if (!only_ || piece == *only_) return Wrong{plan.rank, piece, content, expected};
        }
      }
    }
    return {};
  }

 private:
  Term<Algebra> promised(const Collective& what, std::int32_t part) const {
    const bool sum = what.reduces() && what.size > 1;
    return {algebra_.of(what.contributors(part)), sum ? kOpOfCall : Term<Algebra>::kPlain,
            sum ? static_cast<std::uint32_t>(what.size) : 0};
  }

  /// What a step names, without the cells that are not followed.
  Cells followed(const Block& b, Cells cells) const {
    if (!only_) return cells;
    if (b.part != only_->part || only_->lo < b.lo || b.hi <= only_->lo) return {};
    return {cells.first + context_.grid.before(b.part, only_->lo) - context_.grid.before(b.part, b.lo), 1};
  }

  /// Appends the values of the step's source to sources_.
  void read(int rank, std::uint32_t i) {
    const Plan& plan = context_.plans[rank];
    const Step& step = plan.steps[i];
    const auto blocks = plan.src(step);
    const auto cells = context_.memories[rank].src(step);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Cells from = followed(blocks[b], cells[b]);
      for (std::uint32_t k = 0; k < from.count; ++k) {
        const Content& content = contents_[rank][from.first + k];
        if (!content.written)
          throw PlanError(where(rank, i) + ": reads " + describe(blocks[b]) + " before anything is there");
        sources_.push_back(content);
      }
    }
  }

  /// sources_, `count` lists one after the other, become one list.
  template <class Sum>
  void reduce(int rank, std::uint32_t i, std::size_t count, Sum&& sum) {
    const Step& step = context_.plans[rank].steps[i];
    const std::size_t cells = sources_.size() / count;
    operands_.resize(count);
    for (std::size_t k = 0; k < cells; ++k) {
      for (std::size_t s = 0; s < count; ++s) {
        operands_[s] = sources_[s * cells + k].term;
        if (operands_[s].divisor > 0 && step.op == kOpOfCall)
          throw PlanError(where(rank, i) + ": adds to a complete sum");
      }
      sources_[k].term = reduced<Algebra>(algebra_, operands_, step.op, sum);
    }
    sources_.resize(cells);
  }

  void complete(int rank, std::uint32_t i) {
    for (Content& content : sources_) complete(rank, i, content.term);
  }

  void complete(int rank, std::uint32_t i, Term<Algebra>& term) const {
    const Step& step = context_.plans[rank].steps[i];
    if (!step.completes || (step.op != kOpOfCall && step.op != static_cast<std::int8_t>(ReduceOp::avg))) return;
    if (term.divisor > 0) throw PlanError(where(rank, i) + ": completes what is complete");
    term.divisor = step.divisor ? step.divisor : static_cast<std::uint32_t>(context_.plans[rank].collective.size);
  }

  /// sources_ become the step's destination.
  void write(int rank, std::uint32_t i) {
    std::size_t next = 0;
    each_written(rank, i, [&](Content& content, const BlockCell&) {
      content = sources_[next++];
      content.step = i;
    });
  }

  /// A cell of a block.
  struct BlockCell {
    const Block& block;
    Cells cells;  // of the block
    std::uint32_t cell;
  };
  Numbering::Key name(const BlockCell& at) const {
    const std::uint32_t before = context_.grid.before(at.block.part, at.block.lo) + at.cell - at.cells.first;
    return {at.block.part, static_cast<std::int32_t>(before), 0};
  }

  template <class Visit>
  void each_written(int rank, std::uint32_t i, Visit&& visit) {
    const Plan& plan = context_.plans[rank];
    const auto blocks = plan.dst(plan.steps[i]);
    const auto cells = context_.memories[rank].dst(plan.steps[i]);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Cells to = followed(blocks[b], cells[b]);
      for (std::uint32_t k = 0; k < to.count; ++k)
        visit(contents_[rank][to.first + k], BlockCell{blocks[b], cells[b], to.first + k});
    }
  }

  /// Members bring and get different pieces, so values find their way by name.
  void group(const Matching::Meeting& call, const Group& group) {
    const auto& ranks = group.ranks;
    Numbering brought;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const Step& step = context_.plans[ranks[k]].steps[call.step[k]];
      const auto blocks = context_.plans[ranks[k]].src(step);
      const auto cells = context_.memories[ranks[k]].src(step);
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        const Cells from = followed(blocks[b], cells[b]);
        for (std::uint32_t c = from.first; c < from.first + from.count; ++c)
          brought.add(name({blocks[b], cells[b], c}));
      }
      read(ranks[k], call.step[k]);
      if (!reduces(group.kind) && brought.size() != sources_.size())
        throw PlanError(where(ranks[k], call.step[k]) + ": brings a piece that another member brings too");
    }
    if (reduces(group.kind)) reduce(ranks[0], call.step[0], ranks.size(), Algebra::by_library);
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const std::uint32_t i = call.step[k];
      each_written(ranks[k], i, [&](Content& content, const BlockCell& place) {
        const std::uint32_t found = brought.find(name(place));
        if (found == Numbering::kNone) return;
        content = sources_[found];
        content.step = i;
        if (reduces(group.kind)) complete(ranks[k], i, content.term);
      });
    }
  }

  std::string where(int rank, std::uint32_t i) const {
    return "rank " + std::to_string(rank) + " " + describe(context_.plans[rank], i);
  }

  FlowContext context_;
  Algebra algebra_;
  std::optional<Piece> only_;
  std::vector<std::vector<Content>> contents_;  // of each rank's cells
  std::vector<Content> sources_;                // of the step that happens
  std::vector<Term<Algebra>> operands_;
};

}  // namespace lanecast
