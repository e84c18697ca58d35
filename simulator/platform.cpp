// SPDX-License-Identifier: Apache-2.0
#include "platform.h"

#include <algorithm>
#include <map>
#include <string>

namespace lanecast::simulator {
namespace {

using simgrid::kernel::routing::NetPoint;
using simgrid::s4u::Host;
using simgrid::s4u::Link;
using simgrid::s4u::LinkInRoute;
using simgrid::s4u::NetZone;
using simgrid::s4u::SplitDuplexLink;
using Direction = LinkInRoute::Direction;

constexpr double kHostSpeed = 1e9;  // never used: time on devices is charged in seconds
constexpr double kNoLimit_Bps = 1e15;

SplitDuplexLink* duplex(NetZone* zone, const std::string& name, double rate_Bps, double latency_s) {
  SplitDuplexLink* const link = zone->create_split_duplex_link(name, rate_Bps);
  link->set_latency(latency_s)->seal();
  return link;
}

/// What is never the bottleneck: a rank's messages to itself, a node's way through its group.
Link* no_limit(NetZone* zone, const std::string& name) {
  Link* const link = zone->create_link(name, kNoLimit_Bps);
  link->set_sharing_policy(Link::SharingPolicy::FATPIPE)->seal();
  return link;
}

class NodeBuilder {
 public:
  NodeBuilder(const Machine& machine, NetZone* zone, std::string name)
      : machine_(machine), zone_(zone), name_(std::move(name)) {}

  /// With the first `ranks` of the node's ranks.
  std::vector<Host*> build(int ranks, NetPoint* gateway) {
    std::vector<Host*> hosts;
    for (int rank = 0; rank < ranks; ++rank) {
      Host* const host = zone_->create_host(name_ + "-" + std::to_string(rank), kHostSpeed);
      host->seal();
      zone_->add_route(host->get_netpoint(), host->get_netpoint(), nullptr, nullptr,
                       {LinkInRoute(no_limit(zone_, name_ + "-self" + std::to_string(rank)))}, false);
      zone_->add_route(host->get_netpoint(), gateway, nullptr, nullptr,
                       {LinkInRoute(nic(machine_.nic_of_rank[rank]), Direction::UP)}, true);
      for (int other = 0; other < rank; ++other) join(*hosts[other], other, *host, rank);
      hosts.push_back(host);
    }
    return hosts;
  }

 private:
  SplitDuplexLink* nic(int number) {
    return once("nic" + std::to_string(number), machine_.nic_rate_Bps, machine_.latency_s / 2);
  }

  SplitDuplexLink* once(const std::string& what, double rate_Bps, double latency_s) {
    SplitDuplexLink*& link = links_[what];
    if (link == nullptr) link = duplex(zone_, name_ + "-" + what, rate_Bps, latency_s);
    return link;
  }

  void join(const Host& a, int rank_a, const Host& b, int rank_b) {
    const std::size_t level = machine_.parting_level(rank_a, rank_b);
    const LevelLinks& links = machine_.levels[level];
    std::vector<LinkInRoute> route;
    if (links.is_switched) {
      for (const auto& [rank, direction] : {std::pair(rank_a, Direction::UP), std::pair(rank_b, Direction::DOWN)})
        route.emplace_back(
            once("port" + std::to_string(level) + "." + std::to_string(rank), links.rate_Bps, links.latency_s / 2),
            direction);
    } else {
      const std::string pair = std::to_string(rank_a) + "." + std::to_string(rank_b);
      route.emplace_back(once("wire" + pair, links.rate_Bps, links.latency_s), Direction::UP);
    }
    zone_->add_route(a.get_netpoint(), b.get_netpoint(), nullptr, nullptr, route, true);
  }

  const Machine& machine_;
  NetZone* zone_;
  std::string name_;
  std::map<std::string, SplitDuplexLink*> links_;
};

}  // namespace

std::vector<Host*> build_platform(const Machine& machine, int ranks) {
  const int per_node = machine.ranks_per_node();
  const int nodes = (ranks + per_node - 1) / per_node;
  // One zone of all nodes, with a route for each pair: SimGrid 3.32 leaves out the NICs where zones of groups nest.
  NetZone* const root = simgrid::s4u::create_full_zone("machine");
  std::vector<Host*> hosts;
  std::vector<NetPoint*> zones, gateways;
  std::vector<Link*> ports;
  std::vector<SplitDuplexLink*> groups;
  for (int n = 0; n < nodes; ++n) {
    const std::string name = "node" + std::to_string(n);
    if (n % machine.group_nodes == 0)
      groups.push_back(duplex(root, "group" + std::to_string(n / machine.group_nodes), machine.group_rate_Bps,
                              machine.group_latency_s / 2));
    NetZone* const node = simgrid::s4u::create_full_zone(name)->set_parent(root);
    gateways.push_back(node->create_router(name + "-gateway"));
    const auto built =
        NodeBuilder(machine, node, name).build(std::min(per_node, ranks - n * per_node), gateways.back());
    hosts.insert(hosts.end(), built.begin(), built.end());
    node->seal();
    zones.push_back(node->get_netpoint());
    ports.push_back(no_limit(root, name + "-port"));
  }
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < nodes; ++b) {
      if (a == b) continue;
      SplitDuplexLink* const from = groups[a / machine.group_nodes];
      SplitDuplexLink* const to = groups[b / machine.group_nodes];
      std::vector<LinkInRoute> route{LinkInRoute(ports[a])};
      if (from != to) route = {LinkInRoute(from, Direction::UP), LinkInRoute(to, Direction::DOWN)};
      root->add_route(zones[a], zones[b], gateways[a], gateways[b], route, false);
    }
  root->seal();
  return hosts;
}

}  // namespace lanecast::simulator
