// SPDX-License-Identifier: Apache-2.0
// Scatter down a binomial tree: whoever has the pieces of many ranks hands half of them, in one message, to the first
// rank of the other half.
//
// ⌈log2 n⌉ rounds; the root sends (n − 1)/n of the buffer, each piece passes up to ⌈log2 n⌉ ranks. Backwards it is the
// gather. Source: Thakur et al., "Optimization of collective communication operations in MPICH". The tree of a
// broadcast needs no page: it is Bruck's all-gather where only the root brings anything.
#include <bit>

#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void binomial_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = wrap(index_of(plan.rank(), ranks) - root, n);  // seen from the root
  const auto at = [&](int k) { return wrap(root + k, n); };
  const auto subtree = [&](int first, int span) {
    Pieces all;
    for (int k = first; k < std::min(first + span, n); ++k) append(all, own[at(k)]);
    return all;
  };
  int span = me == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : me & -me;
  if (me > 0) plan.recv(ranks[at(me - span)], subtree(me, span));
  for (span /= 2; span > 0; span /= 2)
    if (me + span < n) plan.send(ranks[at(me + span)], subtree(me + span, span));
}

}  // namespace lanecast
