// SPDX-License-Identifier: Apache-2.0
#include "runtime/links.h"

#include <sched.h>

#include <algorithm>
#include <array>

#include "topology/limits.h"

namespace lanecast {
namespace {

using LevelLinks = std::array<Link, kMostLevels + 1>;

// Where ranks share cores, who waits for a message has given up its core, and gets it back by a switch.
constexpr double kSwitch_s = 10e-6;

/// Orders of magnitude, until the machine is measured: they decide between few rounds and few bytes.
Link link_of(const Transport& transport) {
  // Over TCP between 4 hosts with two NICs of 500 Mbit each, 16 to 64 MiB reach all of the NICs' rate in a ring, 0.58
  // to 0.93 of it by recursive doubling and 0.82 to 0.86 directly.
  if (transport.name() == "mpi" || transport.name() == "ucx")
    return {.alpha_s = 20e-6, .beta_s_per_byte = 1 / 1e9, .unsteady = 1.3, .by_itself = transport.moves_by_itself()};
  return {.alpha_s = 1e-6, .beta_s_per_byte = 1 / 5e9};
}

Link slower(Link a, Link b) { return a.alpha_s < b.alpha_s ? b : a; }

// Between emulated hosts with slow NICs: four chunks under way leave little of each other's latency, and of an
// all-reduce half as much, whose chunks cross them twice: one is gathered while another is reduced.
constexpr Overlap kBetweenHosts{.hidden = 1, .latency = 0.1};
constexpr Overlap kTwiceBetweenHosts{.hidden = 1, .latency = 0.05};
// On one host all levels' messages are copies by its cores, and these have no time to spare.
constexpr Overlap kNoneHidden{.hidden = 0};

std::vector<Overlap> overlaps(Overlap once, Overlap twice) {
  std::vector<Overlap> found;
  for (const Kind kind : kAllKinds) {
    found.push_back(kind == Kind::all_reduce ? twice : once);
    found.back().kind = kind;
  }
  return found;
}

struct Seen {
  LevelLinks links;
  cpu_set_t cores;  // that this rank may use; a launcher may have given each rank of a host its own
};

/// Ranks on the host of `rank`, over cores that any of them may use.
double ranks_per_core(const std::vector<std::string>& hosts, int rank, const std::vector<Seen>& all) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int neighbours = 0;
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (hosts[peer] != hosts[rank]) continue;
    ++neighbours;
    CPU_OR(&cores, &cores, &all[peer].cores);
  }
  return static_cast<double>(neighbours) / std::max(1, CPU_COUNT(&cores));
}

}  // namespace

Links gather_links(const Surroundings& around, const Topology& topology, Router& router) {
  const int rank = around.bootstrap.rank, size = around.bootstrap.size;
  const std::size_t levels = topology.levels() + 1;
  Seen mine;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    Link& link = mine.links[topology.parting_level(rank, peer)];
    link = slower(link, link_of(router.to(peer)));
  }
  // Fails beyond 1024 cores, where the machine is taken for one of a single core: ranks then let others run before they
  // spin.
  CPU_ZERO(&mine.cores);
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  std::vector<Seen> all(size);
  around.bootstrap.all_gather(&mine, all.data(), sizeof mine);

  Links links;
  links.by_level.resize(levels);
  for (const Seen& seen : all)
    for (std::size_t k = 0; k < levels; ++k) links.by_level[k] = slower(links.by_level[k], seen.links[k]);
  const double crowd = ranks_per_core(around.hosts, rank, all);
  links.crowded = crowd > 1;
  const bool one_host = std::ranges::count(around.hosts, around.hosts[0]) == size;
  if (!one_host) links.overlaps = overlaps(kBetweenHosts, kTwiceBetweenHosts);
  if (one_host && links.crowded) {
    links.overlaps = overlaps(kNoneHidden, kNoneHidden);
    for (Link& link : links.by_level) {
      link.alpha_s = std::max(link.alpha_s, kSwitch_s);
      link.crowd = crowd;
    }
  }
  return links;
}

}  // namespace lanecast
