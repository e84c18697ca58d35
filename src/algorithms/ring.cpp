// SPDX-License-Identifier: Apache-2.0
// Ring all-gather: in round t everyone passes on what it received in round t − 1.
//
// n − 1 rounds, (n − 1)/n of the buffer sent by each rank to one neighbour. Source: PCCL, section IV-B; Thakur et al.,
// "Optimization of collective communication operations in MPICH". The receive is listed first so that no rank waits in
// a send for a neighbour that is itself waiting in a send.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void ring(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  for (int t = 0; t < n - 1; ++t) {
    plan.recv(ranks[wrap(me - 1, n)], own[wrap(me - 1 - t, n)]);
    plan.send(ranks[wrap(me + 1, n)], own[wrap(me - t, n)]);
  }
}

}  // namespace lanecast
