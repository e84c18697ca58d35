// SPDX-License-Identifier: Apache-2.0
#include "plan/verify.h"

#include <algorithm>

namespace lanecast {
namespace {

std::uint32_t smallest_window(const std::vector<Plan>& plans, const Matching& matching) {
  const Happens nothing = [](int, std::uint32_t) {};
  std::uint32_t low = 1, high = 1;
  while (!simulate(plans, matching, high, nothing).empty()) {  // the proof has shown that a large one suffices
    low = high + 1;
    high *= 2;
  }
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (simulate(plans, matching, middle, nothing).empty())
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

Proof verify(const std::vector<Plan>& plans) {
  if (plans.empty()) throw PlanError("verify: no plans");
  for (std::size_t r = 0; r < plans.size(); ++r) {
    if (plans[r].rank != static_cast<int>(r) || plans[r].collective.size != static_cast<int>(plans.size()))
      throw PlanError("verify: needs the plans of all ranks, in rank order");
    if (plans[r].collective != plans[0].collective)
      throw PlanError("rank " + std::to_string(r) +
                      ": its plan is for another collective than rank 0's, or is in-place " + "where the other is not");
    check_structure(plans[r]);
    check_races(plans[r]);
  }
  const Matching matching = match(plans);
  check_contributions(plans, matching);
  Proof proof;
  for (std::size_t r = 0; r < plans.size(); ++r)
    proof.messages += std::count_if(plans[r].steps.begin(), plans[r].steps.end(),
                                    [](const Step& s) { return s.kind == StepKind::send; });
  proof.min_window = smallest_window(plans, matching);
  return proof;
}

}  // namespace lanecast
