// SPDX-License-Identifier: Apache-2.0
// Hierarchical scatter: the root hands each rank of its node what that rank's lane carries, the lanes take it to the
// other nodes, all at once, and there only what belongs to ranks beyond the lanes has to move on.
//
// Bytes that leave the root's node: what the others are to get, spread over all its ranks' NICs; a flat scatter sends
// them through the root's. Played backwards it is the gather. Source: the multi-lane scatter of Träff, "Decomposing
// collectives for exploiting multi-lane communication"; uneven nodes as in the all-gather of PCCL, section IV-A.
#include "algorithms/algorithms.h"
#include "algorithms/lanes.h"

namespace lanecast {
namespace {

class CombinedScatter {
 public:
  CombinedScatter(const Ranks& ranks, int root, const PieceLists& own, Lanes lanes)
      : own_(own), place_(places_of(ranks)), root_(ranks[root]), lanes_(std::move(lanes)) {}

  void write(PlanWriter& plan, const Scatter& across, const Scatter& within, const Stages& stages) const {
    const int source = lanes_.node_of(root_);
    stages.begin(0);
    if (lanes_.home() == source) within(plan, lanes_.node(), index_of(root_, lanes_.node()), inside_root_node());
    stages.begin(1);
    if (lanes_.in_lane()) across(plan, lanes_.lane(), source, along_lane(source));
    if (lanes_.home() == source) return;
    stages.begin(2);
    for (int j = 0; j < lanes_.count(); ++j) within(plan, lanes_.node(), j, beyond_lanes(j));
  }

 private:
  const Pieces& own_of(int rank) const { return own_[place_[rank]]; }
  Pieces share(int n, int j) const {
    return lanes_.share(n, j, [this](int rank) -> const Pieces& { return own_of(rank); });
  }

  PieceLists inside_root_node() const {
    PieceLists lists;
    for (std::size_t k = 0; k < lanes_.node().size(); ++k) {
      lists.push_back(own_of(lanes_.node()[k]));
      for (std::size_t n = 0; n < lanes_.nodes().size() && static_cast<int>(k) < lanes_.count(); ++n)
        if (static_cast<int>(n) != lanes_.home()) append(lists.back(), share(static_cast<int>(n), static_cast<int>(k)));
    }
    return lists;
  }

  PieceLists along_lane(int source) const {
    PieceLists lists(lanes_.nodes().size());
    for (std::size_t n = 0; n < lists.size(); ++n)
      if (static_cast<int>(n) != source) lists[n] = share(static_cast<int>(n), lanes_.me());
    return lists;
  }

  PieceLists beyond_lanes(int j) const {
    PieceLists lists(lanes_.node().size());
    for (std::size_t k = lanes_.count(); k < lists.size(); ++k)
      lists[k] = cut(own_of(lanes_.node()[k]), j, lanes_.count());
    return lists;
  }

  const PieceLists& own_;
  std::vector<int> place_;
  int root_;
  Lanes lanes_;
};

}  // namespace

Scatter hierarchical_scatter(const Topology& topology, const std::vector<Scatter>& across, const Scatter& within) {
  return nested(across, within, [&topology](int level, Scatter outer, Scatter inner) -> Scatter {
    return [&topology, level, outer = std::move(outer), inner = std::move(inner)](PlanWriter& plan, const Ranks& ranks,
                                                                                  int root, const PieceLists& own) {
      const CombinedScatter both(ranks, root, own, Lanes(plan.rank(), topology.partition(ranks, level)));
      both.write(plan, outer, inner, Stages(plan, topology, ranks));
    };
  });
}

}  // namespace lanecast
