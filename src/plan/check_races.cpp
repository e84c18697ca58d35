// SPDX-License-Identifier: Apache-2.0
// Are all conflicting accesses of a rank ordered? Works on bytes' identities, not on how the builder thinks of them:
// every access to a piece of memory is compared with all earlier ones that conflict, through the transitive closure of
// the dependencies as they stand in the plan.
#include <algorithm>
#include <unordered_map>

#include "plan/interval_map.h"
#include "plan/verify.h"

namespace lanecast {
namespace {

class Order {
 public:
  explicit Order(const Plan& plan) : plan_(plan), seen_(plan.steps.size(), 0) {}

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

struct Touch {
  std::int64_t writer = -1;
  std::vector<std::uint32_t> readers;  // since the write
};

class RaceCheck {
 public:
  explicit RaceCheck(const Plan& plan) : plan_(plan), order_(plan), slots_(plan.slots), evicted_(plan.regions.size()) {}

  void run() {
    for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) {
      for (const Block& b : plan_.src(plan_.steps[i])) access(i, b, false);
      for (const Block& b : plan_.dst(plan_.steps[i])) access(i, b, true);
    }
  }

 private:
  void access(std::uint32_t i, const Block& b, bool writes) {
    if (b.in_scratch()) occupy(i, b);
    auto& map = touches_.try_emplace(key(b), Touch{}).first->second;
    const auto [first, last] = map.span(b.lo, b.hi);
    for (std::size_t k = first; k < last; ++k) {
      Touch& touch = map[k];
      if (touch.writer >= 0) ordered(i, static_cast<std::uint32_t>(touch.writer), b);
      if (!writes) {
        touch.readers.push_back(i);
        continue;
      }
      for (std::uint32_t reader : touch.readers) ordered(i, reader, b);
      touch = {i, {}};
    }
  }

  /// Every step on a region comes after every step on the region that had the slot before.
  void occupy(std::uint32_t i, const Block& b) {
    const std::int32_t region = b.space - kScratch;
    Slot& slot = slots_[plan_.regions[region].slot];
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
    if (later != earlier && !order_.after(later, earlier))
      throw PlanError(where(later) + ": races with step " + std::to_string(earlier) + " for " + describe(b));
  }

  std::string where(std::uint32_t i) const { return "rank " + std::to_string(plan_.rank) + " " + describe(plan_, i); }

  std::int64_t key(const Block& b) const {
    return (std::int64_t{plan_.collective.home(plan_.rank, b.space, b.part)} << 32) + b.part;
  }

  struct Slot {
    std::int32_t tenant = -1;
    std::vector<std::uint32_t> before;  // steps on the last tenant
    std::vector<std::uint32_t> users;   // steps on this one
  };

  const Plan& plan_;
  Order order_;
  std::unordered_map<std::int64_t, IntervalMap<Touch>> touches_;
  std::vector<Slot> slots_;
  std::vector<bool> evicted_;  // regions whose slot has another tenant by now
};

}  // namespace

void check_races(const Plan& plan) { RaceCheck(plan).run(); }

}  // namespace lanecast
