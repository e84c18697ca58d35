// SPDX-License-Identifier: Apache-2.0
// What can be said of one rank's steps without the others': blocks exist, do not overlap, and name the same pieces on
// both sides; messages and group calls are numbered in list order.
#include <algorithm>
#include <map>

#include "plan/verify.h"

namespace lanecast {
namespace {

class StepCheck {
 public:
  StepCheck(const Plan& plan, std::size_t index) : plan_(plan), index_(index), step_(plan.steps[index]) {}

  void run() const {
    const auto inside = [](Range range, std::size_t size) {
      return range.first <= size && range.count <= size - range.first;
    };
    if (!inside(step_.src, plan_.blocks.size()) || !inside(step_.dst, plan_.blocks.size()) ||
        !inside(step_.deps, plan_.dependencies.size()))
      throw PlanError("rank " + std::to_string(plan_.rank) + " step " + std::to_string(index_) + " names no blocks");
    const auto deps = plan_.deps(step_);
    require(std::is_sorted(deps.begin(), deps.end()), "dependencies are not in ascending order");
    require(deps.empty() || deps.back() < index_, "depends on a later step");
    const auto src = plan_.src(step_), dst = plan_.dst(step_);
    partners();
    for (const Block& b : src) exists(b, false);
    for (const Block& b : dst) exists(b, true);
    disjoint(dst);
    shapes(src, dst);
    require(!step_.completes || sums(), "completes a sum, but adds nothing");
  }

 private:
  void require(bool holds, std::string_view otherwise) const {
    if (!holds) fail(std::string(otherwise));
  }
  // Thousands of blocks are right for each that is wrong, so the text is made for that one only.
  void require(bool holds, std::string_view otherwise, const Block& b) const {
    if (!holds) fail(std::string(otherwise) + " " + describe(b));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw PlanError("rank " + std::to_string(plan_.rank) + " " + describe(plan_, index_) + ": " + why);
  }

  void exists(const Block& b, bool written) const {
    const Collective& what = plan_.collective;
    require(b.part >= 0 && b.part < what.parts() && kZero <= b.lo && b.lo < b.hi && b.hi <= kOne, "no such piece:", b);
    if (b.space == kIn) {
      require(what.inputs(plan_.rank).has(b.part), "this rank brings no", b);
      require(!written, "writes the caller's input");
    } else if (b.space == kOut) {
      require(what.outputs(plan_.rank).has(b.part), "this rank ends with no", b);
    } else {
      const auto regions = static_cast<std::int32_t>(plan_.regions.size());
      require(b.in_scratch() && b.space - kScratch < regions, "no such scratch region:", b);
      const Region& r = plan_.regions[b.space - kScratch];
      require(r.part == b.part && r.lo <= b.lo && b.hi <= r.hi && r.slot >= 0 && r.slot < plan_.slots,
              "outside its scratch region:", b);
    }
  }

  /// A step names a piece once, whatever the space: values are followed by the names of their pieces.
  void disjoint(std::span<const Block> written) const {
    if (written.size() < 2) return;
    std::vector<Block> blocks(written.begin(), written.end());
    std::sort(blocks.begin(), blocks.end(),
              [](const Block& a, const Block& b) { return a.part != b.part ? a.part < b.part : a.lo < b.lo; });
    for (std::size_t k = 1; k < blocks.size(); ++k)
      require(blocks[k - 1].part != blocks[k].part || blocks[k - 1].hi <= blocks[k].lo,
              "writes a piece twice:", blocks[k]);
  }

  void partners() const {
    const int size = plan_.collective.size;
    require(!talks(step_) || (step_.peer >= 0 && step_.peer < size && step_.peer != plan_.rank),
            "no such peer: " + std::to_string(step_.peer));
    if (step_.kind != StepKind::group) return;
    require(plan_.has_group(step_), "no such group: " + std::to_string(step_.group));
    std::vector<int> ranks = plan_.groups[step_.group].ranks;
    std::sort(ranks.begin(), ranks.end());
    require(std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end(), "the group has a member twice");
    require(std::binary_search(ranks.begin(), ranks.end(), plan_.rank), "this rank is no member of the group");
    require(ranks.front() >= 0 && ranks.back() < size, "the group has a member that does not exist");
  }

  bool sums() const {
    if (step_.kind == StepKind::group) return reduces(plan_.groups[step_.group].kind);
    return step_.kind == StepKind::recv_reduce || step_.kind == StepKind::reduce;
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
        return require(same_pieces(src, dst), "source and destination are different pieces");
      case StepKind::reduce: {
        // Sources may be split into blocks differently, so the lists are told apart by the length of dst.
        const Pieces one = pieces(dst);
        Pieces expected;
        require(step_.sources > 0 && step_.sources <= src.size(), "not that many sources");
        for (std::uint32_t k = 0; k < step_.sources; ++k) expected.insert(expected.end(), one.begin(), one.end());
        return require(pieces(src) == joined(expected), "sources differ from the destination's pieces");
      }
      case StepKind::group:
        return group(pieces(src), pieces(dst));
    }
  }

  /// The library below is told the group's pieces and nothing else, so the blocks must be those pieces in that order.
  void group(const Pieces& src, const Pieces& dst) const {
    const Group& group = plan_.groups[step_.group];
    const std::size_t members = group.ranks.size();
    const bool whole = group.kind == Kind::all_reduce || group.kind == Kind::broadcast || group.kind == Kind::reduce;
    const std::size_t lists = group.kind == Kind::all_to_all ? 2 * members : members;
    require(group.own.size() == lists || (whole && group.own.size() == 1),
            "the group needs one list of pieces per member");
    require(group.root >= 0 && static_cast<std::size_t>(group.root) < members, "the group has no such root");
    require(src == joined(brought_to(group, plan_.rank)), "reads other pieces than the group names");
    require(dst == joined(gained_from(group, plan_.rank)), "writes other pieces than the group names");
  }

  const Plan& plan_;
  std::size_t index_;
  const Step& step_;
};

/// Transports that match messages in order and those that match them by tag must agree.
void check_ordinals(const Plan& plan) {
  std::vector<std::uint32_t> sent(plan.collective.size), received(plan.collective.size);
  std::map<std::vector<int>, std::uint32_t> called;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const bool group = step.kind == StepKind::group;
    if (!group && !talks(step)) continue;
    std::uint32_t& next = group                         ? called[plan.groups[step.group].ranks]
                          : step.kind == StepKind::send ? sent[step.peer]
                                                        : received[step.peer];
    if (const std::uint32_t expected = next++; step.ordinal != expected)
      throw PlanError("rank " + std::to_string(plan.rank) + " " + describe(plan, i) + ": carries ordinal " +
                      std::to_string(step.ordinal) + ", in list order it is number " + std::to_string(expected));
  }
}

}  // namespace

void check_structure(const Plan& plan) {
  if (plan.slots < 0 || plan.slots > static_cast<std::int64_t>(plan.regions.size()))
    throw PlanError("rank " + std::to_string(plan.rank) + ": " + std::to_string(plan.slots) + " scratch slots for " +
                    std::to_string(plan.regions.size()) + " regions");
  for (std::size_t k = 0; k < plan.regions.size(); ++k)
    if (const Region& r = plan.regions[k]; !(kZero <= r.lo && r.lo < r.hi && r.hi <= kOne))
      throw PlanError("rank " + std::to_string(plan.rank) + ": scratch region " + std::to_string(k) +
                      " is no piece of " + describe(Piece{r.part, r.lo, r.hi}));
  for (std::size_t i = 0; i < plan.steps.size(); ++i) StepCheck(plan, i).run();
  check_ordinals(plan);
}

}  // namespace lanecast
