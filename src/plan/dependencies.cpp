// SPDX-License-Identifier: Apache-2.0
// Derives what must wait for what: read after write, write after read and write after write, by list order and blocks.
#include <algorithm>
#include <cstdint>

#include "plan/builder.h"

namespace lanecast {
namespace {

constexpr std::uint32_t kNobody = UINT32_MAX;

struct Access {
  std::uint32_t writer = kNobody;
  std::vector<std::uint32_t> readers;  // since that write
};

class Memory {
 public:
  explicit Memory(const Plan& plan) : plan_(plan), slots_(plan.slots, Slot{-1, IntervalMap<Access>(Access{})}) {}

  /// The accesses to the memory behind a block so far.
  IntervalMap<Access>& at(const Block& block) {
    if (!block.in_scratch()) {
      const auto space = plan_.collective.home(plan_.rank, block.space, block.part);
      return buffers_.try_emplace(std::int64_t{block.part} * 2 + space, Access{}).first->second;
    }
    const std::int32_t region = block.space - kScratch;
    Slot& slot = slots_[plan_.regions[region].slot];
    if (slot.region != region) slot = {region, IntervalMap<Access>(everyone(slot.accesses))};
    return slot.accesses;
  }

 private:
  struct Slot {
    std::int32_t region;
    IntervalMap<Access> accesses;
  };

  // A new tenant of a slot has to wait for all that ever touched the old one; where exactly they did does not matter.
  static Access everyone(IntervalMap<Access>& accesses) {
    Access all;
    for (std::size_t k = 0; k < accesses.size(); ++k) {
      all.readers.insert(all.readers.end(), accesses[k].readers.begin(), accesses[k].readers.end());
      if (accesses[k].writer != kNobody) all.readers.push_back(accesses[k].writer);
    }
    std::sort(all.readers.begin(), all.readers.end());
    all.readers.erase(std::unique(all.readers.begin(), all.readers.end()), all.readers.end());
    return all;
  }

  const Plan& plan_;
  std::unordered_map<std::int64_t, IntervalMap<Access>> buffers_;
  std::vector<Slot> slots_;
};

template <class Visit>
void visit(Memory& memory, std::span<const Block> blocks, Visit&& each) {
  for (const Block& b : blocks) {
    auto& map = memory.at(b);
    const auto [first, last] = map.span(b.lo, b.hi);
    for (std::size_t k = first; k < last; ++k) each(map[k]);
  }
}

}  // namespace

void derive_dependencies(Plan& plan) {
  Memory memory(plan);
  std::vector<std::uint32_t> before;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = plan.steps[i];
    before.clear();
    visit(memory, plan.src(step), [&](Access& a) { before.push_back(a.writer); });
    visit(memory, plan.dst(step), [&](Access& a) {
      before.push_back(a.writer);
      before.insert(before.end(), a.readers.begin(), a.readers.end());
    });
    visit(memory, plan.src(step), [&](Access& a) { a.readers.push_back(i); });
    visit(memory, plan.dst(step), [&](Access& a) { a = {i, {}}; });

    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    while (!before.empty() && before.back() >= i) before.pop_back();  // nobody, or the step itself
    step.deps = {static_cast<std::uint32_t>(plan.dependencies.size()), static_cast<std::uint32_t>(before.size())};
    plan.dependencies.insert(plan.dependencies.end(), before.begin(), before.end());
  }
}

}  // namespace lanecast
