// SPDX-License-Identifier: Apache-2.0
// Derives what must wait for what: read after write, write after read and write after write, by list order and blocks.
#include <algorithm>
#include <cstdint>

#include "plan/builder.h"
#include "plan/grid.h"

namespace lanecast {
namespace {

constexpr std::uint32_t kNobody = UINT32_MAX;

class Dependencies {
 public:
  explicit Dependencies(const Plan& plan)
      : plan_(plan),
        grid_({&plan, 1}),
        memory_(plan, grid_),
        cells_(memory_.size()),
        tenants_(plan.slots, -1),
        counted_(plan.steps.size(), kNobody) {}

  /// Earlier steps that step i has to wait for, ascending.
  const std::vector<std::uint32_t>& of(std::uint32_t i) {
    const Step& step = plan_.steps[i];
    before_.clear();
    for (const Block& b : plan_.dst(step)) move_in(b);
    each(memory_.src(step), [&](Access& a) { wait_for(i, a.writer); });
    each(memory_.dst(step), [&](Access& a) {
      wait_for(i, a.writer);
      for (std::uint32_t r = a.readers; r != kNobody; r = readers_[r].earlier) wait_for(i, readers_[r].step);
    });
    each(memory_.src(step), [&](Access& a) { add_reader(a, i); });
    each(memory_.dst(step), [&](Access& a) { a = {i, kNobody}; });
    std::sort(before_.begin(), before_.end());
    return before_;
  }

 private:
  struct Access {
    std::uint32_t writer = kNobody;
    std::uint32_t readers = kNobody;  // since that write: the latest one's index in readers_
  };
  struct Reader {
    std::uint32_t step;
    std::uint32_t earlier;  // the next older one; lists may share their ends, as none ever changes
  };

  template <class Visit>
  void each(std::span<const Cells> blocks, Visit&& visit) {
    for (const Cells& block : blocks)
      for (std::uint32_t k = 0; k < block.count; ++k) visit(cells_[block.first + k]);
  }

  void add_reader(Access& a, std::uint32_t step) {
    readers_.push_back({step, a.readers});
    a.readers = static_cast<std::uint32_t>(readers_.size()) - 1;
  }

  void wait_for(std::uint32_t i, std::uint32_t earlier) {
    if (earlier == kNobody || counted_[earlier] == i) return;
    counted_[earlier] = i;
    before_.push_back(earlier);
  }

  /// The first write to a region takes over its slot. It has to wait for all that ever touched the last tenant; where
  /// exactly they did does not matter.
  void move_in(const Block& b) {
    if (!b.in_scratch()) return;
    const std::int32_t region = b.space - kScratch;
    std::int32_t& tenant = tenants_[plan_.regions[region].slot];
    if (tenant == region) return;
    if (tenant >= 0) {
      std::vector<std::uint32_t> everyone;
      const Cells old = memory_.region(tenant), fresh = memory_.region(region);
      each({&old, 1}, [&](Access& a) {
        if (a.writer != kNobody) everyone.push_back(a.writer);
        for (std::uint32_t r = a.readers; r != kNobody; r = readers_[r].earlier) everyone.push_back(readers_[r].step);
      });
      std::sort(everyone.begin(), everyone.end());
      everyone.erase(std::unique(everyone.begin(), everyone.end()), everyone.end());
      Access all;
      for (std::uint32_t step : everyone) add_reader(all, step);
      each({&fresh, 1}, [&](Access& a) { a = all; });
    }
    tenant = region;
  }

  const Plan& plan_;
  Grid grid_;
  CellMemory memory_;
  std::vector<Access> cells_;
  std::vector<Reader> readers_;
  std::vector<std::int32_t> tenants_;   // region in each slot
  std::vector<std::uint32_t> counted_;  // the step that waits for this one already
  std::vector<std::uint32_t> before_;
};

}  // namespace

void derive_dependencies(Plan& plan) {
  Dependencies dependencies(plan);
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const auto& before = dependencies.of(i);
    plan.steps[i].deps = {static_cast<std::uint32_t>(plan.dependencies.size()),
                          static_cast<std::uint32_t>(before.size())};
    plan.dependencies.insert(plan.dependencies.end(), before.begin(), before.end());
  }
}

}  // namespace lanecast
