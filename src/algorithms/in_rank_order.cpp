// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter whose bits depend on nothing but the inputs: everyone sends each owner its contribution as it is, and
// the owner reduces all n in one step, in rank order, rounding once.
//
// One round in latency where all pairs are linked (n − 1 messages), (n − 1)/n of the buffer sent by each rank, nearly
// the whole buffer (n − 1 times the own share) as scratch. Nothing is summed on the way, so M times as many bytes enter
// a node of M ranks as with a hierarchy: the price of an order that no topology can change. Messages go as in `direct`.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void in_rank_order(PlanBuilder& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  if (n == 1) return;
  const int me = index_of(plan.rank(), ranks);
  std::vector<Blocks> sources(n);
  sources[me] = plan.where(own[me]);
  for (int k = 1; k < n; ++k) {
    const int from = wrap(me - k, n), to = wrap(me + k, n);
    sources[from] = plan.recv_aside(ranks[from], own[me]);
    plan.send(ranks[to], own[to]);
  }
  plan.reduce(sources, own[me]);
  plan.complete(own[me]);
}

}  // namespace lanecast
