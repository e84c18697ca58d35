// SPDX-License-Identifier: Apache-2.0
// Direct all-gather: everyone sends its share to everyone, each round to another rank, so no receiver is crowded.
//
// One round in latency where all pairs are linked (n − 1 messages), (n − 1)/n of the buffer sent by each rank over as
// many links. Source: the "direct" algorithm of HiCCL, section III, as pairwise exchange.
//
// Direct (linear) scatter: the root sends everyone its pieces; n − 1 messages, (n − 1)/n of the buffer. No rank handles
// another's pieces, so it serves ranks that know their own counts only. Source: MPICH's linear scatterv.
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

void direct_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  if (me != root) return plan.recv(ranks[root], own[me]);
  for (int k = 1; k < n; ++k) plan.send(ranks[wrap(root + k, n)], own[wrap(root + k, n)]);
}

}  // namespace lanecast
