// SPDX-License-Identifier: Apache-2.0
// Broadcast, and backwards reduce, out of an all-gather.
//
// Only the root brings something: Bruck's all-gather is then the binomial tree (⌈log2 n⌉ rounds, of which the root
// sends the vector in each), a ring the chain that chunks make a pipeline (n − 1 rounds, everyone sends the vector
// once), direct the linear broadcast. The root scatters stripes first: van de Geijn's broadcast, 2 (n − 1)/n of the
// vector sent by each rank in ⌈log2 n⌉ + n − 1 rounds; backwards Rabenseifner's reduce. Stripes for the ranks of the
// root's node, gathered by a hierarchy: every NIC of a node carries an equal share. Sources: Thakur et al.,
// "Optimization of collective communication operations in MPICH"; HiCCL, section III, "striping".
#include "algorithms/algorithms.h"
#include "algorithms/group.h"
#include "plan/reverse.h"

namespace lanecast {
namespace {

/// Nothing moves where the root is the only owner.
void hand_out(PlanWriter& plan, const Broadcast& broadcast, int root) {
  if (broadcast.in_stages) plan.stage(0, 1);
  if (std::ranges::count(broadcast.owners, plan.rank()) == 0) return;
  const auto scatter = broadcast.by_root ? direct_scatter : binomial_scatter;
  scatter(plan, broadcast.owners, index_of(root, broadcast.owners), broadcast.stripes);
}

PieceLists stripes_of_all(const Broadcast& broadcast, const Ranks& ranks) {
  PieceLists own;
  for (int rank : ranks) {
    const auto place = static_cast<std::size_t>(index_of(rank, broadcast.owners));
    own.push_back(place < broadcast.owners.size() ? broadcast.stripes[place] : Pieces{});
  }
  return own;
}

}  // namespace

void Broadcast::write(PlanBuilder& plan, const Ranks& ranks, int root) const {
  hand_out(plan, *this, root);
  plan.end_stages();
  gather(plan, ranks, stripes_of_all(*this, ranks));
}

void Broadcast::write_reduce(PlanBuilder& plan, const Ranks& ranks, int root) const {
  const PieceLists own = stripes_of_all(*this, ranks);
  reverse(plan, Returning::added, [&](PlanWriter& tape) { gather(tape, ranks, own); });
  plan.complete(own[index_of(plan.rank(), ranks)]);
  plan.end_stages();
  reverse(plan, Returning::placed, [&](PlanWriter& tape) { hand_out(tape, *this, root); });
}

}  // namespace lanecast
