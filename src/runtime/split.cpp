// SPDX-License-Identifier: Apache-2.0
// A communicator from a part of another one's ranks. They find each other over the parent's own transports, so that a
// split needs no launcher, and afterwards over the child's, so that it may outlive its parent.
#include <algorithm>
#include <cstring>

#include "runtime/communicator.h"
#include "transport/mpi/communicator.h"

namespace lanecast {
namespace {

/// All-gather among some ranks of a router by sending everything to everyone.
void exchange(Router& router, const std::vector<int>& ranks, int me, std::span<const std::byte> mine, std::byte* all,
              double timeout_s) {
  const std::size_t bytes = mine.size();
  std::memcpy(all + me * bytes, mine.data(), bytes);
  const Span source{const_cast<std::byte*>(mine.data()), bytes};
  std::vector<Span> targets(ranks.size());
  std::vector<Message> sends(ranks.size()), receives(ranks.size());
  std::size_t open = 0;
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    if (static_cast<int>(k) == me || bytes == 0) continue;
    targets[k] = {all + k * bytes, bytes};
    receives[k] = {ranks[k], 0, bytes, {&targets[k], 1}, nullptr};
    sends[k] = {ranks[k], 0, bytes, {&source, 1}, nullptr};
    router.to(ranks[k]).post_recv(receives[k]);
    router.to(ranks[k]).post_send(sends[k]);
    open += 2;
  }
  Patience patience(true);
  std::vector<Message*> done;
  const auto begin = std::chrono::steady_clock::now();
  while (open > 0) {
    done.clear();
    for (std::size_t t = 0; t < router.count(); ++t) router[t].progress(done);
    open -= done.size();
    if (!done.empty()) {
      patience.reset();
    } else if (patience.pause()) {
      const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (waited < timeout_s) continue;
      router.abort();
      throw TimeoutError("split: waited " + std::to_string(waited) + " s for the other ranks of the new communicator");
    }
  }
}

Bootstrap bootstrap_over(std::shared_ptr<Router> router, std::vector<int> ranks, int me, double timeout_s) {
  Bootstrap bootstrap;
  bootstrap.rank = me;
  bootstrap.size = static_cast<int>(ranks.size());
  bootstrap.all_gather = [router = std::move(router), ranks = std::move(ranks), me, timeout_s](
                             const void* in, void* out, std::size_t bytes) {
    exchange(*router, ranks, me, {static_cast<const std::byte*>(in), bytes}, static_cast<std::byte*>(out), timeout_s);
  };
  return bootstrap;
}

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
  struct Place {
    int color, key;
  };
  const Place mine{color, key};
  std::vector<Place> places(size());
  around_.bootstrap.all_gather(&mine, places.data(), sizeof mine);
  ++splits_;
  if (color < 0) return nullptr;

  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (places[r].color == color) ranks.push_back(r);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return places[a].key < places[b].key; });
  const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());

  Surroundings child;
  child.bootstrap = bootstrap_over(router_, ranks, me, options_.timeout_s);
  child.world = around_.world;
  child.channel = mix(around_.channel * 31 + splits_ * 1009 + static_cast<std::uint64_t>(ranks[0]) + 1);
  if (around_.mpi) child.mpi = around_.mpi->group(ranks);
  for (int r : ranks) child.hosts.push_back(around_.hosts[r]);

  CommunicatorOptions options = options_;
  options.topology.clear();
  options.placed = topology_.subset(ranks);
  options.transports = transports_of(options_.transports, topology_, ranks);
  auto communicator = std::make_unique<Communicator>(std::move(child), std::move(options), progress_);
  std::vector<int> everyone = communicator->topology_.everyone();
  communicator->around_.bootstrap = bootstrap_over(communicator->router_, std::move(everyone), me, options_.timeout_s);
  return communicator;
}

}  // namespace lanecast
