// SPDX-License-Identifier: Apache-2.0
#include "algorithms/lanes.h"

#include "algorithms/algorithms.h"
#include "base/error.h"

namespace lanecast {

Lanes::Lanes(int rank, std::vector<Ranks> nodes) : nodes_(std::move(nodes)) {
  const auto smallest = std::ranges::min_element(nodes_, {}, [](const Ranks& node) { return node.size(); });
  count_ = static_cast<int>(smallest->size());
  home_ = node_of(rank);
  me_ = index_of(rank, node());
}

int Lanes::node_of(int rank) const {
  for (std::size_t n = 0; n < nodes_.size(); ++n)
    if (std::ranges::count(nodes_[n], rank) > 0) return static_cast<int>(n);
  throw InternalError("plan: rank " + std::to_string(rank) + " is in none of the nodes");
}

Ranks Lanes::lane() const {
  Ranks lane;
  for (const Ranks& node : nodes_) lane.push_back(node[me_]);
  return lane;
}

Pieces Lanes::share(int n, int j, const std::function<const Pieces&(int)>& own) const {
  const Ranks& node = nodes_[n];
  Pieces share = own(node[j]);
  for (std::size_t k = count_; k < node.size(); ++k) append(share, cut(own(node[k]), j, count_));
  return share;
}

Stages::Stages(PlanWriter& plan, const Topology& topology, const Ranks& ranks) : plan_(plan) {
  if (!has_stages(topology)) return;
  const auto nodes = topology.partition(ranks, 0);
  const bool even = std::ranges::all_of(nodes, [&](const Ranks& node) { return node.size() == nodes[0].size(); });
  count_ = even ? 2 : 3;
}

std::vector<int> places_of(const Ranks& ranks) {
  std::vector<int> places(1 + *std::ranges::max_element(ranks));
  for (std::size_t k = 0; k < ranks.size(); ++k) places[ranks[k]] = static_cast<int>(k);
  return places;
}

}  // namespace lanecast
