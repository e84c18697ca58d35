// SPDX-License-Identifier: Apache-2.0
// The lanes of a hierarchy: the j-th ranks of all nodes, as many as the smallest node has ranks; and how an algorithm
// for two levels becomes one for any number.
#pragma once

#include <functional>
#include <vector>

#include "algorithms/group.h"
#include "topology/topology.h"

namespace lanecast {

class Lanes {
 public:
  Lanes(int rank, std::vector<Ranks> nodes);

  const std::vector<Ranks>& nodes() const { return nodes_; }
  int count() const { return count_; }

  int home() const { return home_; }  // the node of this rank
  const Ranks& node() const { return nodes_[home_]; }
  int me() const { return me_; }  // place in the node; the lane of this rank where it is below count()
  bool in_lane() const { return me_ < count_; }
  Ranks lane() const;
  int node_of(int rank) const;

  /// What lane j carries for node n: what its j-th rank has, and a cut of what each rank beyond the lanes has.
  Pieces share(int n, int j, const std::function<const Pieces&(int rank)>& own) const;

 private:
  std::vector<Ranks> nodes_;
  int count_ = 0;
  int home_ = 0;
  int me_ = 0;
};

/// Those of a plan whose levels are all combined here: two, or three where hosts have ranks beyond the lanes. Plans of
/// more levels have none.
class Stages {
 public:
  Stages(PlanWriter& plan, const Topology& topology, const Ranks& ranks);
  int count() const { return count_; }
  void begin(int number) const {
    if (count_ != 0) plan_.stage(number, count_);
  }

 private:
  PlanWriter& plan_;
  int count_ = 0;
};

/// Place of each rank among `ranks`, to be asked many times.
std::vector<int> places_of(const Ranks& ranks);

/// `across` has an algorithm per level of the topology, outermost first. combine(k, outer, inner): an algorithm that
/// runs `outer` along the lanes of level k and `inner` inside its domains.
template <class Algorithm, class Combine>
Algorithm nested(const std::vector<Algorithm>& across, const Algorithm& within, const Combine& combine) {
  Algorithm outer = across[0];
  for (std::size_t k = 0; k < across.size(); ++k)
    outer = combine(static_cast<int>(k), std::move(outer), k + 1 < across.size() ? across[k + 1] : within);
  return outer;
}

}  // namespace lanecast
