// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/links.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "topology/limits.h"

namespace lanecast {
namespace {

using LevelLinks = std::array<Link, kMostLevels + 1>;

// Where ranks share cores, who waits for a message has given up its core, and gets it back by a switch.
constexpr double kSwitch_s = 10e-6;

// What no pair of ranks shows: where each rank's peer changes from round to round, or all send at once, two messages
// now and then want the same port while another stands idle. How much that costs depends on the network; that it costs
// something is why long messages go in rings.
constexpr double kUnsteady = 1.3;

// Of a message's latency, what the processor at either end does: the rest passes while it does so for the next one.
constexpr double kGapOfLatency = 0.1;

// Of the time in which a pipeline among the ranks of a host fills. Calls follow each other, and who is through with one
// begins the next.
constexpr double kFilling = 0.25;

/// Orders of magnitude, where nothing is timed: they decide between few rounds and few bytes.
Link link_of(const Transport& transport, bool within_host) {
  const std::string_view name = transport.name();
  const bool library = name == "mpi" || name == "ucx";
  constexpr double kAlpha_s = 20e-6;
  const Traits traits = transport.traits();
  if (name == "emulated" || (library && !within_host))
    return {.alpha_s = kAlpha_s,
            .beta_s_per_byte = 1 / 1e9,
            .unsteady = kUnsteady,
            .traits = {.by_itself = traits.moves_by_itself},
            .gap_s = kGapOfLatency * kAlpha_s};
  // Within a host a library copies by the ranks' cores, too, and receivers read long messages.
  constexpr std::size_t kReadByReceivers = 65536;
  if (library)
    return {.alpha_s = 2e-6,
            .beta_s_per_byte = 1 / 4e9,
            .traits = {.by_library = true,
                       .by_itself = traits.moves_by_itself,
                       .sends_once_from = kReadByReceivers,
                       .read_from = kReadByReceivers}};
  return {.alpha_s = 1e-6,
          .beta_s_per_byte = 1 / 5e9,
          .traits = {.sends_once_from = traits.sends_once_from,
                     .asks_from = traits.asks_from,
                     .asking_bytes = traits.asking_bytes,
                     .read_from = traits.read_from},
          .filling = filling_of(name)};
}

Link slower(Link a, Link b) { return a.alpha_s < b.alpha_s ? b : a; }

// On one host all levels' messages are copies by its cores. One level's hide nothing of another's where ranks share
// cores, or where a library copies.
constexpr Overlap kNoneHidden{.hidden = 0};

std::vector<Overlap> of_all_kinds(Overlap overlap) {
  std::vector<Overlap> found;
  for (const Kind kind : kAllKinds) {
    overlap.kind = kind;
    found.push_back(overlap);
  }
  return found;
}

struct RankSight {
  LevelLinks links;
  std::array<bool, kMostLevels + 1> between_hosts{};
  cpu_set_t cores;  // that this rank may use; a launcher may have given each rank of a host its own
};

/// Ranks on the host of `rank`, over cores that any of them may use.
double ranks_per_core(const std::vector<std::string>& hosts, int rank, const std::vector<RankSight>& all) {
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

double filling_of(std::string_view transport) { return transport == "shm" ? kFilling : 1; }

Links gather_links(const Surroundings& around, const Topology& topology, Router& router) {
  const int rank = around.bootstrap.rank, size = around.bootstrap.size;
  const std::size_t levels = topology.levels() + 1;
  RankSight mine;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const int level = topology.parting_level(rank, peer);
    const bool within_host = around.hosts[peer] == around.hosts[rank];
    mine.links[level] = slower(mine.links[level], link_of(router.to(peer), within_host));
    if (!within_host) mine.between_hosts[level] = true;
  }
  // Fails beyond 1024 cores, where the machine is taken for one of a single core: ranks then let others run before they
  // spin.
  CPU_ZERO(&mine.cores);
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  std::vector<RankSight> all(size);
  around.bootstrap.all_gather(&mine, all.data(), sizeof mine);

  Links links;
  links.by_level.resize(levels);
  links.between_hosts.resize(levels);
  for (const RankSight& seen : all)
    for (std::size_t k = 0; k < levels; ++k) {
      links.by_level[k] = slower(links.by_level[k], seen.links[k]);
      if (seen.between_hosts[k]) links.between_hosts[k] = true;
    }
  const double crowd = ranks_per_core(around.hosts, rank, all);
  links.crowded = crowd > 1;
  const bool one_host = std::ranges::count(around.hosts, around.hosts[0]) == size;
  if (!one_host) links.overlaps = overlaps_between_hosts(links.by_level[0]);
  const bool by_library = std::ranges::any_of(links.by_level, [](const Link& link) { return link.traits.by_library; });
  if (one_host && (links.crowded || by_library)) links.overlaps = of_all_kinds(kNoneHidden);
  if (one_host && links.crowded) {
    for (Link& link : links.by_level) {
      link.alpha_s = std::max(link.alpha_s, kSwitch_s);
      link.crowd = crowd;
    }
  }
  return links;
}

std::vector<Overlap> overlaps_between_hosts(const Link& link) {
  // Chunks that are under way together hide each other's latency, but for what a processor does with a message; no
  // network changes that. No more than this share is left, since so many chunks are under way.
  constexpr double kWork_s = 2e-6, kMostLeft = 0.25;
  const double left = link.alpha_s > 0 ? kWork_s / link.alpha_s : 0;
  std::vector<Overlap> found = of_all_kinds({.hidden = 1, .latency = std::min(left, kMostLeft)});
  // Its chunks cross twice, and one is gathered while another is reduced.
  std::ranges::find(found, Kind::all_reduce, &Overlap::kind)->latency /= 2;
  return found;
}

void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const TimedLinks& timed) {
  Link slowest;
  for (const auto& link : timed.by_level)
    if (link) slowest = slower(slowest, *link);
  if (slowest.alpha_s == 0) return;
  for (std::size_t k = 0; k < links.size(); ++k) {
    if (!between_hosts[k]) continue;
    const Link& found = timed.by_level[k].value_or(slowest);
    links[k].alpha_s = found.alpha_s;
    links[k].beta_s_per_byte = found.beta_s_per_byte;
    links[k].gap_s = found.gap_s;
    links[k].source = found.source;
  }
}

void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const LinkPolicy& given) {
  for (std::size_t k = 0; k < links.size(); ++k) {
    if (!between_hosts[k]) continue;
    links[k].alpha_s = given.alpha_s;
    links[k].beta_s_per_byte = given.beta_s_per_byte;
    links[k].gap_s = kGapOfLatency * given.alpha_s;
    links[k].source = LinkSource::given;
  }
}

std::string in_words(const TimedLinks& timed) {
  std::array<char, 64> text{};
  const std::time_t at = timed.at;
  std::tm parts{};
  const std::size_t end = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&at, &parts));
  std::snprintf(text.data() + end, text.size() - end, " in %.0f ms", timed.took_s * 1e3);
  return text.data();
}

}  // namespace lanecast
