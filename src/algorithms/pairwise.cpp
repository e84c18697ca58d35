// SPDX-License-Identifier: Apache-2.0
// Pairwise all-to-all: in round k everyone sends to the rank k ahead and receives from the rank k behind.
//
// n − 1 messages, (n − 1)/n of its row sent by each rank, none of it twice. Source: Thakur et al., "Optimization of
// collective communication operations in MPICH", for long messages. No rank handles what others send each other, so it
// serves ranks that know their own counts only.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void pairwise(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  plan.begin_exchange();
  for (int k = 1; k < n; ++k) {
    const int to = wrap(me + k, n), from = wrap(me - k, n);
    plan.recv(ranks[from], parcels(from, me));
    plan.send(ranks[to], parcels(me, to));
  }
  plan.end_exchange();
}

}  // namespace lanecast
