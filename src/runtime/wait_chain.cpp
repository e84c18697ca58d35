// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait_chain.h"

#include <vector>

namespace lanecast {
namespace {

struct Link {
  int rank;
  int awaited_by;  // link, -1: by the waiter itself
};

std::string text_of(const std::vector<Link>& links, int last) {
  std::vector<int> way;  // back to the waiter
  for (int at = last; at >= 0; at = links[at].awaited_by) way.push_back(links[at].rank);
  std::string text = "rank " + std::to_string(way.back());
  if (way.size() == 1) return text + " has not answered";
  for (std::size_t k = way.size() - 1; k-- > 0;) {
    text += k + 2 == way.size() ? " waits for rank " : ", which waits for rank ";
    text += std::to_string(way[k]);
  }
  return text + ", which has not answered";
}

}  // namespace

std::string wait_chain(Router& router, const Waiter& waiter) {
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
  for (int k = 0; k < static_cast<int>(links.size()); ++k) {
    const auto waiting = router.to(links[k].rank).waiting(links[k].rank);
    if (!waiting) continue;
    if (waiting->age_s > waiter.silent_s) return links.size() == 1 ? "" : text_of(links, k);
    follow(waiting->peers, k);
  }
  return {};
}

}  // namespace lanecast
