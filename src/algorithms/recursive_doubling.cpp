// SPDX-License-Identifier: Apache-2.0
// Recursive doubling all-gather, for powers of two: in each round partners exchange all they have, at half, a quarter,
// … of all ranks apart. Played backwards it is recursive halving.
//
// log2 n rounds, (n − 1)/n of the buffer sent by each rank. Source: PCCL, section IV-B, where the nearest are first.
// Other counts take Bruck's form.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void recursive_doubling(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  const auto exchange = [&](int distance, int first_of_mine, int apart, int count) {
    const int partner = me ^ distance;
    Pieces mine, theirs;
    for (int k = 0; k < count; ++k) {
      append(mine, own[first_of_mine + k * apart]);
      append(theirs, own[(first_of_mine ^ distance) + k * apart]);
    }
    plan.recv(ranks[partner], theirs);
    plan.send(ranks[partner], mine);
  };
  if (lie_apart(own)) {
    for (int distance = n / 2; distance > 0; distance /= 2)
      exchange(distance, me % (2 * distance), 2 * distance, n / (2 * distance));
  } else {
    for (int distance = 1; distance < n; distance *= 2) exchange(distance, me & ~(distance - 1), 1, distance);
  }
}

}  // namespace lanecast
