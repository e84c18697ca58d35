// SPDX-License-Identifier: Apache-2.0
// Scratch slots by liveness: a ring reduce-scatter over 16 ranks holds 14 partial sums in turn, but two at a time.
#include <algorithm>
#include <queue>

#include "plan/builder.h"

namespace lanecast {
namespace {

struct Life {
  std::int32_t first = -1, last = -1;  // steps that touch the region
};

std::vector<Life> lives(const Plan& plan) {
  std::vector<Life> lives(plan.regions.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    for (const auto& blocks : {plan.src(plan.steps[i]), plan.dst(plan.steps[i])})
      for (const Block& b : blocks) {
        if (!b.in_scratch()) continue;
        Life& life = lives[b.space - kScratch];
        if (life.first < 0) life.first = static_cast<std::int32_t>(i);
        life.last = static_cast<std::int32_t>(i);
      }
  return lives;
}

/// A message of an exchange that came into a slot which another one is still sent from would wait for that one.
void outlive(std::vector<Life>& lives, std::span<const Range> exchanges) {
  for (Life& life : lives) {
    const auto after = [&](const Range& each) {
      return static_cast<std::int32_t>(each.first + each.count) > life.last;
    };
    const auto within = std::ranges::find_if(exchanges, after);
    if (within != exchanges.end() && life.last >= static_cast<std::int32_t>(within->first))
      life.last = static_cast<std::int32_t>(within->first + within->count) - 1;
  }
}

bool same_width(const Region& a, const Region& b) { return a.lo == b.lo && a.hi == b.hi; }

}  // namespace

void assign_slots(Plan& plan, std::span<const Range> exchanges) {
  std::vector<Life> life = lives(plan);
  outlive(life, exchanges);
  using Death = std::pair<std::int32_t, std::int32_t>;  // last step, region; the earliest on top
  std::priority_queue<Death, std::vector<Death>, std::greater<>> alive;
  std::vector<std::int32_t> idle;  // regions whose slots are free, longest idle first: the most slack between tenants

  // Regions are numbered in the order of their first steps, so one sweep over them is a sweep over time.
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(plan.regions.size()); ++r) {
    for (; !alive.empty() && alive.top().first < life[r].first; alive.pop()) idle.push_back(alive.top().second);
    if (idle.empty()) {
      plan.regions[r].slot = plan.slots++;
    } else {
      auto tenant = std::find_if(idle.begin(), idle.end(),
                                 [&](std::int32_t k) { return same_width(plan.regions[k], plan.regions[r]); });
      if (tenant == idle.end()) tenant = idle.begin();
      plan.regions[r].slot = plan.regions[*tenant].slot;
      idle.erase(tenant);
    }
    alive.push({life[r].last, r});
  }
}

}  // namespace lanecast
