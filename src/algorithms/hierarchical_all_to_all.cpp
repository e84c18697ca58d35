// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-to-all: inside the node everyone hands each lane what goes to the ranks of that lane, the lanes
// exchange it between the nodes, and there only what belongs to ranks beyond the lanes has to move on.
//
// On N nodes of M ranks each rank sends M − 1 messages inside its node and N − 1 between nodes, in place of N·M − 1;
// between nodes it sends (N − 1)/N of its row, as without a hierarchy, and inside its node nearly the whole row beside
// it. Source: the node-aware all-to-all of Träff, "Decomposing collectives for exploiting multi-lane communication";
// uneven nodes: the ranks beyond the lanes are dealt out over them.
#include "algorithms/algorithms.h"
#include "algorithms/lanes.h"

namespace lanecast {
namespace {

class CombinedAllToAll {
 public:
  CombinedAllToAll(const Ranks& ranks, const Parcels& parcels, Lanes lanes)
      : parcels_(parcels), place_(places_of(ranks)), lanes_(std::move(lanes)) {}

  void write(PlanWriter& plan, const AllToAll& across, const AllToAll& within, const Stages& stages) const {
    stages.begin(0);
    within(plan, lanes_.node(), [this](int from, int to) { return to_lanes(from, to); });
    stages.begin(1);
    if (lanes_.in_lane()) across(plan, lanes_.lane(), [this](int from, int to) { return along_lane(from, to); });
    if (static_cast<int>(lanes_.node().size()) <= lanes_.count()) return;
    stages.begin(2);
    within(plan, lanes_.node(), [this](int from, int to) { return beyond_lanes(from, to); });
  }

 private:
  Pieces between(int from, int to) const { return parcels_(place_[from], place_[to]); }

  /// Of what the rank `from` brings, that which lane j carries to node n.
  void carried(Pieces& pieces, int from, int n, int j) const {
    const Ranks& node = lanes_.nodes()[n];
    for (std::size_t k = j; k < node.size(); k += lanes_.count()) append(pieces, between(from, node[k]));
  }

  Pieces to_lanes(int from, int to) const {
    const Ranks& node = lanes_.node();
    Pieces pieces = between(node[from], node[to]);
    for (std::size_t n = 0; n < lanes_.nodes().size() && to < lanes_.count(); ++n)
      if (static_cast<int>(n) != lanes_.home()) carried(pieces, node[from], static_cast<int>(n), to);
    return pieces;
  }

  Pieces along_lane(int from, int to) const {
    Pieces pieces;
    if (from == to) return pieces;
    for (int rank : lanes_.nodes()[from]) carried(pieces, rank, to, lanes_.me());
    return pieces;
  }

  Pieces beyond_lanes(int from, int to) const {
    Pieces pieces;
    if (from >= lanes_.count() || to < lanes_.count() || to % lanes_.count() != from) return pieces;
    for (std::size_t n = 0; n < lanes_.nodes().size(); ++n)
      if (static_cast<int>(n) != lanes_.home())
        for (int rank : lanes_.nodes()[n]) append(pieces, between(rank, lanes_.node()[to]));
    return pieces;
  }

  const Parcels& parcels_;
  std::vector<int> place_;
  Lanes lanes_;
};

}  // namespace

AllToAll hierarchical_all_to_all(const Topology& topology, const std::vector<AllToAll>& across,
                                 const AllToAll& within) {
  return nested(across, within, [&topology](int level, AllToAll outer, AllToAll inner) -> AllToAll {
    return [&topology, level, outer = std::move(outer), inner = std::move(inner)](PlanWriter& plan, const Ranks& ranks,
                                                                                  const Parcels& parcels) {
      const CombinedAllToAll both(ranks, parcels, Lanes(plan.rank(), topology.partition(ranks, level)));
      both.write(plan, outer, inner, Stages(plan, topology, ranks));
    };
  });
}

}  // namespace lanecast
