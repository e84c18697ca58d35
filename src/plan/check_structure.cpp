// SPDX-License-Identifier: Apache-2.0
// What can be said of one step by itself: its blocks exist, do not overlap, and name the same pieces on both sides.
#include <algorithm>

#include "plan/verify.h"

namespace lanecast {
namespace {

class StepCheck {
 public:
  StepCheck(const Plan& plan, std::size_t index) : plan_(plan), index_(index), step_(plan.steps[index]) {}

  void run() const {
    if (step_.src.first + step_.src.count > plan_.blocks.size() || step_.dst.first + step_.dst.count > plan_.blocks.size() ||
        step_.deps.first + step_.deps.count > plan_.dependencies.size())
      throw PlanError("rank " + std::to_string(plan_.rank) + " step " + std::to_string(index_) + " names no blocks");
    const auto deps = plan_.deps(step_);
    require(std::is_sorted(deps.begin(), deps.end()), "dependencies are not in ascending order");
    require(deps.empty() || deps.back() < index_, "depends on a later step");
    const auto src = plan_.src(step_), dst = plan_.dst(step_);
    for (const Block& b : src) exists(b, false);
    for (const Block& b : dst) exists(b, true);
    disjoint(dst);
    peer();
    shapes(src, dst);
  }

 private:
  void require(bool holds, const std::string& otherwise) const {
    if (!holds) throw PlanError("rank " + std::to_string(plan_.rank) + " " + describe(plan_, index_) + ": " + otherwise);
  }

  void exists(const Block& b, bool written) const {
    const Collective& what = plan_.collective;
    require(b.part >= 0 && b.part < what.parts() && kZero <= b.lo && b.lo < b.hi && b.hi <= kOne,
            "no such piece: " + describe(b));
    if (b.space == kIn) {
      require(what.inputs(plan_.rank).has(b.part), "this rank brings no " + describe(b));
      require(!written, "writes the caller's input");
    } else if (b.space == kOut) {
      require(what.outputs(plan_.rank).has(b.part), "this rank ends with no " + describe(b));
    } else {
      const std::size_t region = b.space - kScratch;
      require(b.space > 0 && region < plan_.regions.size(), "no such scratch region: " + describe(b));
      const Region& r = plan_.regions[region];
      require(r.part == b.part && r.lo <= b.lo && b.hi <= r.hi && r.slot >= 0 && r.slot < plan_.slots,
              "outside its scratch region: " + describe(b));
    }
  }

  void disjoint(std::span<const Block> written) const {
    std::vector<Block> blocks(written.begin(), written.end());
    for (Block& b : blocks) b.space = plan_.collective.home(plan_.rank, b.space, b.part);
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
      return std::pair(a.space, a.part) != std::pair(b.space, b.part)
                 ? std::pair(a.space, a.part) < std::pair(b.space, b.part)
                 : a.lo < b.lo;
    });
    for (std::size_t k = 1; k < blocks.size(); ++k)
      require(blocks[k - 1].space != blocks[k].space || blocks[k - 1].part != blocks[k].part ||
                  blocks[k - 1].hi <= blocks[k].lo,
              "writes " + describe(blocks[k]) + " twice");
  }

  void peer() const {
    const bool talks = step_.kind == StepKind::send || step_.kind == StepKind::recv || step_.kind == StepKind::recv_reduce;
    require(!talks || (step_.peer >= 0 && step_.peer < plan_.collective.size && step_.peer != plan_.rank),
            "no such peer: " + std::to_string(step_.peer));
    require(step_.kind != StepKind::group || (step_.group >= 0 && step_.group < static_cast<int>(plan_.groups.size())),
            "no such group");
  }

  void shapes(std::span<const Block> src, std::span<const Block> dst) const {
    const auto pieces = [](std::span<const Block> b) { return pieces_of(b.data(), b.data() + b.size()); };
    switch (step_.kind) {
      case StepKind::send:
        return require(dst.empty() && !src.empty(), "a send reads and does not write");
      case StepKind::recv:
        return require(src.empty() && !dst.empty(), "a receive writes and does not read");
      case StepKind::copy:
      case StepKind::recv_reduce:
        return require(pieces(src) == pieces(dst), "source and destination are different pieces");
      case StepKind::reduce: {
        // Sources may be split into blocks differently, so the lists are told apart by the length of dst.
        const Pieces one = pieces(dst);
        Pieces expected;
        for (std::uint32_t k = 0; k < step_.sources; ++k) expected.insert(expected.end(), one.begin(), one.end());
        return require(step_.sources > 0 && pieces(src) == joined(expected), "sources differ from the destination's pieces");
      }
      case StepKind::group:
        return;  // compared with the other members in match()
    }
  }

  const Plan& plan_;
  std::size_t index_;
  const Step& step_;
};

}  // namespace

void check_structure(const Plan& plan) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) StepCheck(plan, i).run();
}

}  // namespace lanecast
