// SPDX-License-Identifier: Apache-2.0
#include "runtime/prepared_plan.h"

namespace lanecast {

PreparedPlan::PreparedPlan(Plan built) : plan(std::move(built)) {
  const std::size_t n = plan.steps.size();
  first_successor.assign(n + 1, 0);
  for (const Step& step : plan.steps) {
    waits.push_back(step.deps.count);
    for (std::uint32_t d : plan.deps(step)) ++first_successor[d + 1];
  }
  for (std::size_t i = 0; i < n; ++i) first_successor[i + 1] += first_successor[i];
  successors.resize(first_successor[n]);
  std::vector<std::uint32_t> next(first_successor.begin(), first_successor.end() - 1);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t d : plan.deps(plan.steps[i])) successors[next[d]++] = i;
}

}  // namespace lanecast
