// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-gather: gather across nodes along lanes (the j-th ranks of all nodes), meanwhile share inside the
// node what it brings itself, then share there what the lanes have brought.
//
// Bytes that enter a node: S·(N − 1)/N for N nodes, over all its ranks' NICs at once; a flat ring sends S·(p − 1)/p
// through one NIC a direction. Played backwards and forwards it is the multi-lane all-reduce, and the shuffles of the
// two halves cancel, since pieces land where they belong. Source: PCCL, section IV-A; uneven nodes are beyond it: there
// are as many lanes as ranks in the smallest node, and what the excess ranks bring is cut over the lanes.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/lanes.h"

namespace lanecast {
namespace {

/// The levels above `level` are spread over by `across`, the domains of `level` filled by `within`.
void combine(PlanWriter& plan, const Ranks& ranks, const PieceLists& own, const Lanes& lanes, const AllGather& across,
             const AllGather& within, const Stages& stages) {
  const auto begin_stage = [&](int from_last) { stages.begin(stages.count() - 1 - from_last); };
  const std::vector<int> place = places_of(ranks);
  const auto own_of = [&](int rank) -> const Pieces& { return own[place[rank]]; };
  const auto& nodes = lanes.nodes();
  const Ranks& node = lanes.node();

  PieceLists brought;
  for (int rank : node) brought.push_back(own_of(rank));
  // What ranks beyond the lanes bring has to reach the lanes first. Otherwise the messages between nodes go first, as
  // they take longest; backwards they are then what a sum waits for last, and nothing queues behind them.
  const bool all_in_lanes = static_cast<int>(node.size()) == lanes.count();
  begin_stage(2);
  if (!all_in_lanes) within(plan, node, brought);

  begin_stage(1);
  if (lanes.in_lane()) {
    PieceLists shares;
    for (std::size_t n = 0; n < nodes.size(); ++n)
      shares.push_back(lanes.share(static_cast<int>(n), lanes.me(), own_of));
    across(plan, lanes.lane(), shares);
  }

  if (all_in_lanes) within(plan, node, brought);

  PieceLists remote(node.size());
  for (int j = 0; j < lanes.count(); ++j)
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n)
      if (n != lanes.home()) append(remote[j], lanes.share(n, j, own_of));
  begin_stage(0);
  within(plan, node, remote);
}

}  // namespace

AllGather hierarchical(const Topology& topology, const std::vector<AllGather>& across, const AllGather& within) {
  return nested(across, within, [&topology](int level, AllGather outer, AllGather inner) -> AllGather {
    return [&topology, level, outer = std::move(outer), inner = std::move(inner)](PlanWriter& plan, const Ranks& ranks,
                                                                                  const PieceLists& own) {
      combine(plan, ranks, own, Lanes(plan.rank(), topology.partition(ranks, level)), outer, inner,
              Stages(plan, topology, ranks));
    };
  });
}

}  // namespace lanecast
