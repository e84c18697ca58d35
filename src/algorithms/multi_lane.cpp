// SPDX-License-Identifier: Apache-2.0
// The multi-lane all-reduce with a library's own inside: a reduce-scatter within each node, the library's all-reduce
// along each lane, an all-gather within. Playing a hierarchical gather backwards and forwards would call the library
// twice along the lanes. Source: Traff and Hunold; Adams and Bienz, Algorithm 2.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/lanes.h"
#include "plan/reverse.h"

namespace lanecast {

bool multi_lane_all_reduce(PlanBuilder& plan, const Topology& topology, const AllGather& within) {
  const Lanes lanes(plan.rank(), topology.partition(topology.everyone(), 0));
  const auto full = [&](const Ranks& node) { return static_cast<int>(node.size()) == lanes.count(); };
  if (!std::ranges::all_of(lanes.nodes(), full)) return false;
  PieceLists slices;
  for (int lane = 0; lane < lanes.count(); ++lane) slices.push_back(cut(whole(0), lane, lanes.count()));
  reverse(plan, Returning::added, [&](PlanWriter& tape) { within(tape, lanes.node(), slices); });
  library_all_reduce(plan, lanes.lane(), slices[lanes.me()]);
  within(plan, lanes.node(), slices);
  return true;
}

}  // namespace lanecast
