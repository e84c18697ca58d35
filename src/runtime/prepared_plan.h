// SPDX-License-Identifier: Apache-2.0
// A plan with what an executor derives from it once: who waits for each step, and how many it waits for.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace lanecast {

struct PreparedPlan {
  explicit PreparedPlan(Plan built);

  Plan plan;
  std::vector<std::uint32_t> waits;  // steps that each step waits for
  std::vector<std::uint32_t> first_successor;
  std::vector<std::uint32_t> successors;  // of step i: [first_successor[i], first_successor[i + 1])
  std::vector<int> handles;               // of Plan::groups, from Transport::open_group; empty before the first call
  std::vector<int> carriers;              // of each peer: its transport in the Router; empty: those of the Router

  std::span<const std::uint32_t> successors_of(std::size_t step) const {
    return {successors.data() + first_successor[step], first_successor[step + 1] - first_successor[step]};
  }
};

}  // namespace lanecast
