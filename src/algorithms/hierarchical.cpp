// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-gather: gather across nodes along lanes (the j-th ranks of all nodes), meanwhile share inside the
// node what it brings itself, then share there what the lanes have brought.
//
// Bytes that enter a node: S·(N − 1)/N for N nodes, over all its ranks' NICs at once; a flat ring sends S·(p − 1)/p
// through one NIC a direction. Played backwards and forwards it is the multi-lane all-reduce, and the shuffles of the
// two halves cancel, since pieces land where they belong. Source: PCCL, section IV-A; uneven nodes are beyond it: there
// are as many lanes as ranks in the smallest node, and what the excess ranks bring is cut over the lanes.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {
namespace {

/// What lane j of `lanes` carries for one node.
Pieces lane_share(const Ranks& node, int j, int lanes, const std::function<const Pieces&(int)>& own) {
  Pieces share = own(node[j]);
  for (std::size_t k = lanes; k < node.size(); ++k) append(share, cut(own(node[k]), j, lanes));
  return share;
}

/// The levels above `level` are spread over by `across`, the domains of `level` filled by `within`.
void combine(PlanWriter& plan, const Ranks& ranks, const PieceLists& own, const std::vector<Ranks>& nodes,
             const AllGather& across, const AllGather& within) {
  std::vector<int> index(1 + *std::max_element(ranks.begin(), ranks.end()));
  for (std::size_t k = 0; k < ranks.size(); ++k) index[ranks[k]] = static_cast<int>(k);
  const auto own_of = [&](int rank) -> const Pieces& { return own[index[rank]]; };

  std::size_t home = 0;
  std::size_t lanes = nodes[0].size();
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    lanes = std::min(lanes, nodes[n].size());
    if (index_of(plan.rank(), nodes[n]) < static_cast<int>(nodes[n].size())) home = n;
  }
  const Ranks& node = nodes[home];
  const std::size_t me = index_of(plan.rank(), node);

  PieceLists brought;
  for (int rank : node) brought.push_back(own_of(rank));
  // What ranks beyond the lanes bring has to reach the lanes first. Otherwise the messages between nodes go first, as
  // they take longest; backwards they are then what a sum waits for last, and nothing queues behind them.
  const bool all_in_lanes = node.size() == lanes;
  if (!all_in_lanes) within(plan, node, brought);

  if (me < lanes) {
    Ranks lane;
    PieceLists shares;
    for (const Ranks& other : nodes) {
      lane.push_back(other[me]);
      shares.push_back(lane_share(other, static_cast<int>(me), static_cast<int>(lanes), own_of));
    }
    across(plan, lane, shares);
  }

  if (all_in_lanes) within(plan, node, brought);

  PieceLists remote(node.size());
  for (std::size_t j = 0; j < lanes; ++j)
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (n != home) append(remote[j], lane_share(nodes[n], static_cast<int>(j), static_cast<int>(lanes), own_of));
  within(plan, node, remote);
}

}  // namespace

AllGather hierarchical(const Topology& topology, std::vector<AllGather> across, const AllGather& within) {
  AllGather gather = across[0];
  for (std::size_t k = 0; k < across.size(); ++k) {
    AllGather inner = k + 1 < across.size() ? across[k + 1] : within;
    gather = [&topology, k, outer = std::move(gather), inner](PlanWriter& plan, const Ranks& ranks,
                                                              const PieceLists& own) {
      combine(plan, ranks, own, topology.partition(ranks, static_cast<int>(k)), outer, inner);
    };
  }
  return gather;
}

}  // namespace lanecast
