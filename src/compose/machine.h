// SPDX-License-Identifier: Apache-2.0
// The machine as a composition's plan is shaped to it, apart from what the composition means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compose/hierarchy.h"

namespace lanecast {

/// What a user may say of the shape. Nothing of it changes a result. Source: HiCCL, section IV; the fifth knob, the
/// pipeline depth, is the number of chunks in which the plan is run, and the transports of the levels are the caller's.
struct Shaping {
  std::vector<int> factors;           // of the number of ranks, outermost level first; empty: `hierarchy`
  std::optional<Topology> hierarchy;  // levels of any shape; none: those of the machine
  int stripe = 0;                     // ranks of a node that carry a part each of what leaves it; 0: all of them
  int ring = 0;                       // domains that form an open chain; 1: none, trees everywhere; 0: who runs it says
};

struct Machine {
  /// `real`: where the ranks sit, by which the defaults go. Throws UsageError for a shape that does not fit.
  Machine(const Topology& real, const Shaping& shaping);

  /// "2x2x3, stripe 3"
  std::string str() const;
  /// How many stages a step of a composition takes at most.
  int stages() const;

  Topology topology;  // virtual
  Hierarchy hierarchy;
  int ring_level = -1;  // whose domains form the chain; -1: none do
  int node_level = -1;  // whose domains are striped over; -1: none are
  int stripe = 1;

 private:
  void set_ring(int ring);
  void set_stripe(const Topology& real, int wanted);
};

}  // namespace lanecast
