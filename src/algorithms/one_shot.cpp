// SPDX-License-Identifier: Apache-2.0
// All-reduce of a whole vector in one round: everyone sends its vector to everyone and sums all n in rank order.
//
// One round (n − 1 messages), each rank sends its vector n − 1 times. The same bits on every rank. Source: the one-shot
// kernels of peer-memory libraries; here between any ranks.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void one_shot(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces) {
  const int n = static_cast<int>(ranks.size());
  if (n == 1) return;
  const int me = index_of(plan.rank(), ranks);
  std::vector<Blocks> sources(n);
  sources[me] = plan.where(pieces);
  for (int k = 1; k < n; ++k) {
    const int from = wrap(me - k, n);
    sources[from] = plan.recv_aside(ranks[from], pieces);
    plan.send(ranks[wrap(me + k, n)], pieces);
  }
  plan.reduce(sources, pieces);
  plan.complete(pieces);
}

}  // namespace lanecast
