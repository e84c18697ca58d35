// SPDX-License-Identifier: Apache-2.0
// A plan with what an executor derives from it once: who waits for each step, and how many it waits for.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "plan/exchanges.h"
#include "plan/successors.h"

namespace lanecast {

struct PreparedPlan {
  explicit PreparedPlan(Plan built) : plan(std::move(built)), successors(plan) {}

  Plan plan;
  Successors successors;
  std::optional<Exchanges> exchanges;  // where a transport announces long messages
  std::vector<int> handles;            // of Plan::groups, from Groups::open; empty before the first call
  std::vector<int> transports;         // of each peer: its transport in the Router; empty: those of the Router
};

}  // namespace lanecast
