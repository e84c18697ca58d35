// SPDX-License-Identifier: Apache-2.0
// Bruck's all-gather, for any number of ranks: in each round everyone fetches, from the rank `distance` ahead, what
// that one holds and it does not. Distances double, or halve where shares lie apart: see lie_apart.
//
// ⌈log2 n⌉ rounds, (n − 1)/n of the buffer sent by each rank. Source: Bruck et al., "Efficient algorithms for
// all-to-all communications in multiport message-passing systems". No rotation at the end: pieces are named, not
// counted.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {
namespace {

/// Halves are rounded up, so that what is held lies `distance` apart at most after each round.
std::vector<int> distances(int n, bool far_first) {
  std::vector<int> found;
  if (far_first)
    for (int left = n; left > 1; left = (left + 1) / 2) found.push_back((left + 1) / 2);
  else
    for (int distance = 1; distance < n; distance *= 2) found.push_back(distance);
  return found;
}

}  // namespace

void bruck(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  std::vector<int> held{0};  // whose shares, in ranks ahead: alike on all
  std::vector<bool> is_held(n);
  is_held[0] = true;
  for (const int distance : distances(n, lie_apart(own))) {
    Pieces theirs, mine;
    for (const int ahead : std::vector(held)) {
      const int fetched = wrap(ahead + distance, n);
      if (is_held[fetched]) continue;
      is_held[fetched] = true;
      held.push_back(fetched);
      append(theirs, own[wrap(me + fetched, n)]);
      append(mine, own[wrap(me + ahead, n)]);
    }
    plan.recv(ranks[wrap(me + distance, n)], theirs);
    plan.send(ranks[wrap(me - distance, n)], mine);
  }
}

}  // namespace lanecast
