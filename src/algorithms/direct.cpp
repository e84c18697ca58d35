// SPDX-License-Identifier: Apache-2.0
// Direct all-gather: everyone sends its share to everyone, each round to another rank, so no receiver is crowded.
//
// One round in latency where all pairs are linked (n − 1 messages), (n − 1)/n of the buffer sent by each rank over as
// many links. Source: the "direct" algorithm of HiCCL, section III, as pairwise exchange.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void direct(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  for (int k = 1; k < n; ++k) {
    plan.recv(ranks[wrap(me - k, n)], own[wrap(me - k, n)]);
    plan.send(ranks[wrap(me + k, n)], own[me]);
  }
}

}  // namespace lanecast
