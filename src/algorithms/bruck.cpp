// SPDX-License-Identifier: Apache-2.0
// Bruck's all-gather, for any number of ranks: in each round everyone fetches, from the rank `distance` ahead, as many
// shares as it holds already.
//
// ⌈log2 n⌉ rounds, (n − 1)/n of the buffer sent by each rank. Source: Bruck et al., "Efficient algorithms for
// all-to-all communications in multiport message-passing systems". No rotation at the end: pieces are named, not
// counted.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void bruck(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  for (int distance = 1; distance < n; distance *= 2) {
    Pieces theirs, mine;
    for (int k = 0; k < std::min(distance, n - distance); ++k) {
      append(theirs, own[wrap(me + distance + k, n)]);
      append(mine, own[wrap(me + k, n)]);
    }
    plan.recv(ranks[wrap(me + distance, n)], theirs);
    plan.send(ranks[wrap(me - distance, n)], mine);
  }
}

}  // namespace lanecast
