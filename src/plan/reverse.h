// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/builder.h"

namespace lanecast {

/// Plays an all-gather backwards, which makes it a reduce-scatter: what was sent comes back and is added, what was
/// received is sent. Afterwards ranks[k] holds the sum of own[k].
void reverse(PlanBuilder& plan, const AllGather& all_gather, const Ranks& ranks, const PieceLists& own);

}  // namespace lanecast
