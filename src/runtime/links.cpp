// SPDX-License-Identifier: Apache-2.0
#include "runtime/links.h"

#include <algorithm>
#include <array>
#include <thread>

#include "topology/limits.h"

namespace lanecast {
namespace {

using LevelLinks = std::array<Link, kMostLevels + 1>;

/// Orders of magnitude, until the machine is measured: they decide between few rounds and few bytes.
Link link_of(std::string_view transport) {
  if (transport == "mpi") return {20e-6, 1 / 1e9};
  return {1e-6, 1 / 5e9};
}

Link slower(Link a, Link b) { return a.alpha_s < b.alpha_s ? b : a; }

}  // namespace

Links gather_links(const Surroundings& around, const Topology& topology, Router& router) {
  const int rank = around.bootstrap.rank, size = around.bootstrap.size;
  const std::size_t levels = topology.levels() + 1;
  LevelLinks mine;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    Link& link = mine[topology.parting_level(rank, peer)];
    link = slower(link, link_of(router.to(peer).name()));
  }
  std::vector<LevelLinks> all(size);
  around.bootstrap.all_gather(&mine, all.data(), sizeof mine);

  Links links;
  links.by_level.resize(levels);
  for (const LevelLinks& seen : all)
    for (std::size_t k = 0; k < levels; ++k) links.by_level[k] = slower(links.by_level[k], seen[k]);
  const auto neighbours = std::ranges::count(around.hosts, around.hosts[rank]);
  links.crowded = neighbours > static_cast<std::ptrdiff_t>(std::thread::hardware_concurrency());
  return links;
}

}  // namespace lanecast
