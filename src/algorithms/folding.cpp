// SPDX-License-Identifier: Apache-2.0
// All-reduce of a whole vector by recursive doubling; ranks beyond the largest power of two fold theirs into a partner
// first and get the result from it at the end.
//
// ⌊log2 n⌋ rounds, two more unless n is a power of two; each sends the whole vector. Source: Thakur et al., as
// MPICH's recursive doubling. The sums ping-pong between two places, since the value being sent is still read.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void folding(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  int power = 1;
  while (power * 2 <= n) power *= 2;
  const int extra = n - power;

  if (me >= power) {
    plan.send(ranks[me - power], pieces);
    plan.recv(ranks[me - power], pieces);
    return;
  }
  if (me < extra) plan.recv_reduce(ranks[me + power], pieces, PlanBuilder::Sum::apart);
  for (int distance = 1; distance < power; distance *= 2) {
    const int partner = ranks[me ^ distance];
    plan.send(partner, pieces);
    plan.recv_reduce(partner, pieces, PlanBuilder::Sum::apart);
  }
  plan.complete(pieces);
  if (me < extra) plan.send(ranks[me + power], pieces);
}

}  // namespace lanecast
