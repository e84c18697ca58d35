// SPDX-License-Identifier: Apache-2.0
// Are all conflicting accesses of a rank ordered? Works on bytes' identities, not on how the builder thinks of them:
// every access to a piece of memory is compared with all earlier ones that conflict, through the transitive closure of
// the dependencies as they stand in the plan.
#include <algorithm>

#include "plan/grid.h"
#include "plan/verify.h"

namespace lanecast {
namespace {

class StepOrder {
 public:
  explicit StepOrder(const Plan& plan) : plan_(plan), seen_(plan.steps.size(), 0) {}

  bool after(std::uint32_t later, std::uint32_t earlier) {
    const auto direct = plan_.deps(plan_.steps[later]);
    if (std::binary_search(direct.begin(), direct.end(), earlier)) return true;
    ++round_;
    todo_.assign(direct.begin(), direct.end());
    while (!todo_.empty()) {
      const std::uint32_t step = todo_.back();
      todo_.pop_back();
      if (step == earlier) return true;
      if (step < earlier || seen_[step] == round_) continue;
      seen_[step] = round_;
      const auto deps = plan_.deps(plan_.steps[step]);
      todo_.insert(todo_.end(), deps.begin(), deps.end());
    }
    return false;
  }

 private:
  const Plan& plan_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> todo_;
};

class RaceCheck {
 public:
  explicit RaceCheck(const Plan& plan)
      : plan_(plan),
        order_(plan),
        grid_({&plan, 1}),
        memory_(plan, grid_),
        touches_(memory_.size()),
        comes_before_(plan.steps.size(), kNobody),
        slots_(plan.slots),
        evicted_(plan.regions.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      access(i, plan_.src(step), memory_.src(step), false);
      access(i, plan_.dst(step), memory_.dst(step), true);
    }
  }

 private:
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  struct Touch {
    std::uint32_t writer = kNobody;
    std::uint32_t readers = kNobody;  // since the write: the latest one's index in readers_
  };
  struct RegionReader {
    std::uint32_t step;
    std::uint32_t earlier;  // the next older one
  };

  void access(std::uint32_t i, std::span<const Block> blocks, std::span<const Cells> cells, bool writes) {
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      const Block& b = blocks[n];
      if (b.in_scratch()) occupy(i, b);
      for (std::uint32_t k = 0; k < cells[n].count; ++k) {
        Touch& touch = touches_[cells[n].first + k];
        if (touch.writer != kNobody) ordered(i, touch.writer, b);
        if (!writes) {
          readers_.push_back({i, touch.readers});
          touch.readers = static_cast<std::uint32_t>(readers_.size()) - 1;
          continue;
        }
        for (std::uint32_t r = touch.readers; r != kNobody; r = readers_[r].earlier) ordered(i, readers_[r].step, b);
        touch = {i, kNobody};
      }
    }
  }

  /// Every step on a region comes after every step on the region that had the slot before.
  void occupy(std::uint32_t i, const Block& b) {
    const std::int32_t region = b.space - kScratch;
    SlotUses& slot = slots_[plan_.regions[region].slot];
    if (slot.tenant != region) {
      if (evicted_[region]) throw PlanError(where(i) + ": returns to a scratch region that another one has replaced");
      if (!slot.users.empty() && slot.users.back() == i)
        throw PlanError(where(i) + ": uses two regions of one scratch slot");
      if (slot.tenant >= 0) evicted_[slot.tenant] = true;
      slot = {region, std::move(slot.users), {}};
    }
    for (std::uint32_t earlier : slot.before) ordered(i, earlier, b);
    slot.users.push_back(i);
  }

  void ordered(std::uint32_t later, std::uint32_t earlier, const Block& b) {
    if (later == earlier || comes_before_[earlier] == later) return;
    if (!order_.after(later, earlier))
      throw PlanError(where(later) + ": races with step " + std::to_string(earlier) + " for " + describe(b));
    comes_before_[earlier] = later;
  }

  std::string where(std::uint32_t i) const { return "rank " + std::to_string(plan_.rank) + " " + describe(plan_, i); }

  struct SlotUses {
    std::int32_t tenant = -1;
    std::vector<std::uint32_t> before;  // steps on the last tenant
    std::vector<std::uint32_t> users;   // steps on this one
  };

  const Plan& plan_;
  StepOrder order_;
  Grid grid_;
  CellMemory memory_;
  std::vector<Touch> touches_;  // of each cell
  std::vector<RegionReader> readers_;
  std::vector<std::uint32_t> comes_before_;  // the last step that was found to wait for this one
  std::vector<SlotUses> slots_;
  std::vector<bool> evicted_;  // regions whose slot has another tenant by now
};

}  // namespace

void check_races(const Plan& plan) { RaceCheck(plan).run(); }

}  // namespace lanecast
