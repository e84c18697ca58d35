// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait_chain.h"

#include <algorithm>
#include <vector>

namespace lanecast {
namespace {

struct Link {
  int rank;
  int awaited_by;  // link, -1: by the waiter itself
};

constexpr std::size_t kNamed = 6;  // ranks of a long way that are named; a reason has room for some hundred letters

std::string text_of(const std::vector<Link>& links, int last) {
  std::vector<int> way;  // back to the waiter
  for (int at = last; at >= 0; at = links[at].awaited_by) way.push_back(links[at].rank);
  std::reverse(way.begin(), way.end());
  std::string text = "rank " + std::to_string(way[0]);
  for (std::size_t k = 1; k < way.size(); ++k) {
    if (k == kNamed / 2 && way.size() > kNamed) {
      const std::size_t left_out = way.size() - kNamed;
      text += ", and so on past " + std::to_string(left_out) + " more to rank " + std::to_string(way[k + left_out]);
      k += left_out;
      continue;
    }
    text += (k == 1 ? " waits for rank " : ", which waits for rank ") + std::to_string(way[k]);
  }
  return text + (way.size() == 1 ? " has not answered" : ", which has not answered");
}

}  // namespace

WaitChain wait_chain(Router& router, const Waiter& waiter) {
  std::vector<Link> links;
  std::vector<bool> seen(waiter.size);
  seen[waiter.rank] = true;
  const auto follow = [&](std::span<const int> peers, int awaited_by) {
    for (const int peer : peers) {
      if (!seen[peer]) links.push_back({peer, awaited_by});
      seen[peer] = true;
    }
  };
  follow(waiter.awaited, -1);
  bool open = false;
  for (int k = 0; k < static_cast<int>(links.size()); ++k) {
    const int rank = links[k].rank;
    const auto waiting = router.to(rank).waiting(rank, waiter.silent_s);
    if (!waiting) continue;
    if (waiting->age_s > waiter.silent_s) return {links.size() == 1 ? "" : text_of(links, k), false};
    open = open || waiting->peers.empty();
    follow(waiting->peers, k);
  }
  return {{}, open};
}

bool waits_for(Router& router, const Waiter& waiter, int rank) {
  std::vector<int> reached(waiter.awaited.begin(), waiter.awaited.end());
  std::vector<bool> seen(waiter.size);
  for (std::size_t k = 0; k < reached.size(); ++k) {
    const int at = reached[k];
    if (at == rank) return true;
    if (at == waiter.rank || seen[at]) continue;
    seen[at] = true;
    const auto waiting = router.to(at).waiting(at, waiter.silent_s);
    if (waiting && waiting->age_s <= waiter.silent_s)
      reached.insert(reached.end(), waiting->peers.begin(), waiting->peers.end());
  }
  return false;
}

}  // namespace lanecast
