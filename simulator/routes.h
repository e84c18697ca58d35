// SPDX-License-Identifier: Apache-2.0
// The machine as links and what a message passes of them, as platform.h builds it for SimGrid.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "job.h"

namespace lanecast::simulator {

struct Route {
  static constexpr std::size_t kMostLinks = 4;  // a NIC and a group's link at each end
  std::array<int, kMostLinks> links{};
  std::size_t count = 0;
  double latency_s = 0;

  void pass(int link, double link_latency_s) {
    links[count++] = link;
    latency_s += link_latency_s;
  }
  std::span<const int> all() const { return {links.data(), count}; }
};

class Routes {
 public:
  Routes(const Machine& machine, int ranks);

  /// Between two different ranks.
  Route between(int from, int to) const;
  /// In bytes a second, of each link.
  const std::vector<double>& capacities() const { return capacities_; }

 private:
  static constexpr int kOut = 0, kIn = 1;  // each link has two directions

  Route within(int node, int from, int to) const;
  int nic(int rank, int direction) const;

  const Machine& machine_;
  int per_node_, nics_, links_of_node_, first_group_link_;
  std::vector<double> capacities_;
};

}  // namespace lanecast::simulator
