// SPDX-License-Identifier: Apache-2.0
#include "plan/successors.h"

namespace lanecast {

Successors::Successors(const Plan& plan) {
  const std::size_t n = plan.steps.size();
  first_.assign(n + 1, 0);
  for (const Step& step : plan.steps) {
    waits_.push_back(step.deps.count);
    for (std::uint32_t d : plan.deps(step)) ++first_[d + 1];
  }
  for (std::size_t i = 0; i < n; ++i) first_[i + 1] += first_[i];
  steps_.resize(first_[n]);
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t d : plan.deps(plan.steps[i])) steps_[next[d]++] = i;
}

}  // namespace lanecast
