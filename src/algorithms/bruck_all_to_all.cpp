// SPDX-License-Identifier: Apache-2.0
// Bruck's all-to-all: a parcel that has to go o ranks ahead hops by the powers of two in o, smallest first, and each
// round's hops from one rank are one message.
//
// ⌈log2 n⌉ rounds, about half of a row sent in each. Source: Bruck et al., "Efficient algorithms for all-to-all
// communications in multiport message-passing systems". No rotations: pieces are named, not counted.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void bruck_all_to_all(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  for (int hop = 1; hop < n; hop *= 2) {
    // Before this round a parcel with offset o lies o mod hop ahead of its origin.
    const auto leaving = [&](int rank) {
      Pieces all;
      for (int offset = hop; offset < n; ++offset) {
        if ((offset & hop) == 0) continue;
        const int origin = wrap(rank - offset % hop, n);
        append(all, parcels(origin, wrap(origin + offset, n)));
      }
      return all;
    };
    plan.recv(ranks[wrap(me - hop, n)], leaving(wrap(me - hop, n)));
    plan.send(ranks[wrap(me + hop, n)], leaving(me));
  }
}

}  // namespace lanecast
