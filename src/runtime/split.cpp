// SPDX-License-Identifier: Apache-2.0
// A communicator from a part of another one's ranks. They find each other over the parent's own transports, so that a
// split needs no launcher, and afterwards over the child's, so that it may outlive its parent.
#include <algorithm>

#include "runtime/communicator.h"
#include "runtime/exchange.h"
#include "transport/mpi/communicator.h"

namespace lanecast {
namespace {

/// The parent's list without the levels that do not divide the child.
std::string transports_of(const std::string& list, const Topology& topology, const std::vector<int>& ranks) {
  if (list.find(',') == std::string::npos) return list;
  std::string kept;
  std::size_t begin = 0;
  for (int k = 0; k <= topology.levels(); ++k) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (k == topology.levels() || topology.divides(ranks, k))
      kept += (kept.empty() ? "" : ",") + list.substr(begin, end - begin);
    begin = end + 1;
  }
  return kept;
}

/// The parent's pinned algorithm, unless it needs levels that the child does not have.
std::string algorithm_for(const std::string& pinned, const Topology& topology) {
  return any_has_algorithm(topology, pinned) ? pinned : std::string();
}

std::uint64_t mix(std::uint64_t x) {  // finaliser of SplitMix64: neighbouring ids become unrelated ones
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const std::lock_guard lock(mutex_);
  refuse_if_failed();
  if (!started_.empty()) throw UsageError("split: wait for the started calls of this communicator first");
  try {
    return make_child(color, key);
  } catch (const UsageError&) {
    throw;  // all members have agreed on it
  } catch (const std::exception& error) {
    fail(failure_of(error));
    throw;
  }
}

std::unique_ptr<Communicator> Communicator::make_child(int color, int key) {
  struct Place {
    int color, key;
  };
  const Place mine{color, key};
  std::vector<Place> places(size());
  bootstrap_over(router_, topology_.everyone(), rank(), options_.timeout_s.value_or(kTimeout_s))
      .all_gather(&mine, places.data(), sizeof mine);
  ++splits_;
  if (color < 0) return nullptr;

  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (places[r].color == color) ranks.push_back(r);
  std::sort(ranks.begin(), ranks.end(),
            [&](int a, int b) { return std::pair(places[a].key, a) < std::pair(places[b].key, b); });
  const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());

  Surroundings child;
  child.bootstrap = bootstrap_over(router_, ranks, me, options_.timeout_s.value_or(kTimeout_s));
  child.world = around_.world;
  child.channel = mix(around_.channel * 31 + splits_ * 1009 + static_cast<std::uint64_t>(ranks[0]) + 1);
  if (around_.mpi) {
    child.bootstrap.barrier();  // MPI waits for all members, without a deadline: only where all have heard of the split
    child.mpi = around_.mpi->group(ranks);
  }
  for (int r : ranks) child.hosts.push_back(around_.hosts[r]);
  if (around_.decorate)
    child.decorate = [decorate = around_.decorate, ranks](std::unique_ptr<Transport> transport,
                                                          const std::vector<int>& members) {
      std::vector<int> ours;
      ours.reserve(members.size());
      for (int member : members) ours.push_back(ranks[member]);
      return decorate(std::move(transport), ours);
    };

  CommunicatorOptions options = options_;
  options.topology.clear();
  options.placed = topology_.subset(ranks);
  options.from_environment = false;  // it has had its say
  options.algorithm = algorithm_for(options_.algorithm, *options.placed);
  options.transports = transports_of(options_.transports, topology_, ranks);
  auto communicator = std::make_unique<Communicator>(std::move(child), std::move(options), progress_);
  // The ranks outside the child still want the cores.
  if (rivals_ != Rivals::none) communicator->share_cores();
  if (models_.measured()) communicator->models_ = subset(models_, topology_, ranks);
  communicator->around_.bootstrap.all_gather = {};  // it holds the parent's transports, which may go now
  return communicator;
}

}  // namespace lanecast
