// SPDX-License-Identifier: Apache-2.0
// Recursive doubling all-gather, for powers of two: in each round partners exchange all they have, then look twice as
// far. Played backwards it is recursive halving.
//
// log2 n rounds, (n − 1)/n of the buffer sent by each rank. Source: PCCL, section IV-B. Other counts take Bruck's form.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void recursive_doubling(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  for (int distance = 1; distance < n; distance *= 2) {
    const int partner = me ^ distance;
    Pieces mine, theirs;
    for (int k = 0; k < distance; ++k) {
      append(mine, own[(me & ~(distance - 1)) + k]);
      append(theirs, own[(partner & ~(distance - 1)) + k]);
    }
    plan.recv(ranks[partner], theirs);
    plan.send(ranks[partner], mine);
  }
}

}  // namespace lanecast
