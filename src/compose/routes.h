// SPDX-License-Identifier: Apache-2.0
// From one rank to many: over which ranks the data of a primitive goes. A reduction takes the same way backwards.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compose/machine.h"

namespace lanecast {

/// The leaves of a primitive as places in the row of the hierarchy.
class LeafPlaces {
 public:
  LeafPlaces(std::span<const int> ranks, const Hierarchy& hierarchy);
  int count(RowRun run) const;

 private:
  bool all_;                 // ranks are leaves
  std::vector<int> places_;  // ascending
};

/// A primitive as the machine sees it.
struct Spread {
  std::uint32_t primitive = 0;
  bool reduces = false;
  int root = 0;  // place
  const LeafPlaces* leaves = nullptr;
  std::vector<int> owners;  // places that carry a stripe each; the root alone where nothing is striped

  /// Does anyone in there want, or bring, what the root does not have?
  bool reaches(RowRun run) const {
    const bool root_itself = !reduces && run.has(root) && leaves->count({root, root + 1}) > 0;
    return leaves->count(run) > (root_itself ? 1 : 0);
  }
};

/// A stripe on its way between two ranks.
struct Hop {
  std::int32_t stage = 0;
  int from = 0, to = 0;  // places
  std::uint32_t primitive = 0;
  std::int32_t stripe = 0;
  bool adds = false;        // the receiver has a sum to which this is added
  std::uint32_t order = 0;  // among all that were found
};

/// The place in the order of messages between which a rank listens: neighbours first, everyone to another one.
inline int round_of(int from, int to, int size) { return (to - from + size) % size; }

/// The hops of a primitive in which one rank takes part. First the root hands stripes to the ranks of its node
/// (stage 0), then each stripe goes its way: along an open chain of nodes, a hop a stage, and down a tree inside each
/// of them; or down a tree from the start, a level a stage. Domains without a leaf are left out. Source: HiCCL,
/// sections IV-B to IV-D.
class Routes {
 public:
  Routes(const Machine& machine, int me, std::vector<Hop>& hops)
      : machine_(machine), row_(machine.hierarchy), me_(me), hops_(hops) {}

  void append(const Spread& spread);

 private:
  struct Stripe {
    const Spread& spread;
    std::int32_t number;
  };

  /// Who takes over in `target` from `from`, of another domain of this level: its lane there, in a domain with leaves.
  int counterpart(const Stripe& stripe, int from, RowRun target, int level) const;
  void chain(const Stripe& stripe, int owner);
  /// Spreads what place `from` has over the domains of `level` in `run`.
  void tree(const Stripe& stripe, int from, RowRun run, int level);
  void branch(const Stripe& stripe, int from, RowRun target, int level);
  void hop(const Stripe& stripe, int stage, int parent, int child, bool adds);
  /// Has the parent some value when the child's arrives?
  bool adds(const Stripe& stripe, int parent, int child, int level) const;
  int stage_of(int level) const { return machine_.stages() - 1 - (row_.levels() - level); }

  const Machine& machine_;
  const Hierarchy& row_;
  int me_;
  std::vector<Hop>& hops_;
};

}  // namespace lanecast
