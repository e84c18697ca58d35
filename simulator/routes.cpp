// SPDX-License-Identifier: Apache-2.0
#include "routes.h"

#include <algorithm>
#include <utility>

namespace lanecast::simulator {

Routes::Routes(const Machine& machine, int ranks)
    : machine_(machine),
      per_node_(machine.ranks_per_node()),
      nics_(*std::ranges::max_element(machine.nic_of_rank) + 1) {
  // Of each node: its NICs, a wire for each ordered pair of ranks, and a port for each rank and level.
  const auto levels = static_cast<int>(machine.levels.size());
  links_of_node_ = 2 * nics_ + per_node_ * per_node_ + 2 * per_node_ * levels;
  const int nodes = (ranks + per_node_ - 1) / per_node_;
  for (int node = 0; node < nodes; ++node) {
    capacities_.insert(capacities_.end(), 2 * nics_, machine.nic_rate_Bps);
    for (int pair = 0; pair < per_node_ * per_node_; ++pair)
      capacities_.push_back(machine.levels[machine.parting_level(pair / per_node_, pair % per_node_)].rate_Bps);
    for (const LevelLinks& level : machine.levels) capacities_.insert(capacities_.end(), 2 * per_node_, level.rate_Bps);
  }
  first_group_link_ = static_cast<int>(capacities_.size());
  const int groups = (nodes + machine.group_nodes - 1) / machine.group_nodes;
  capacities_.insert(capacities_.end(), 2 * groups, machine.group_rate_Bps);
}

int Routes::nic(int rank, int direction) const {
  return rank / per_node_ * links_of_node_ + 2 * machine_.nic_of_rank[rank % per_node_] + direction;
}

Route Routes::within(int node, int from, int to) const {
  const std::size_t level = machine_.parting_level(from, to);
  const LevelLinks& links = machine_.levels[level];
  const int first = node * links_of_node_ + 2 * nics_;
  Route route;
  if (links.is_switched) {
    const int ports = first + per_node_ * per_node_ + 2 * per_node_ * static_cast<int>(level);
    route.pass(ports + 2 * from + kOut, links.latency_s / 2);
    route.pass(ports + 2 * to + kIn, links.latency_s / 2);
  } else {
    route.pass(first + from * per_node_ + to, links.latency_s);
  }
  return route;
}

Route Routes::between(int from, int to) const {
  const int from_node = from / per_node_, to_node = to / per_node_;
  if (from_node == to_node) return within(from_node, from % per_node_, to % per_node_);
  Route route;
  route.pass(nic(from, kOut), machine_.latency_s / 2);
  route.pass(nic(to, kIn), machine_.latency_s / 2);
  const int from_group = from_node / machine_.group_nodes, to_group = to_node / machine_.group_nodes;
  if (from_group != to_group) {
    route.pass(first_group_link_ + 2 * from_group + kOut, machine_.group_latency_s / 2);
    route.pass(first_group_link_ + 2 * to_group + kIn, machine_.group_latency_s / 2);
  }
  return route;
}

}  // namespace lanecast::simulator
