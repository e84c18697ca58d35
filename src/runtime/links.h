// SPDX-License-Identifier: Apache-2.0
// What the cost model has to know of the machine, equal on every rank.
#pragma once

#include <vector>

#include "runtime/surroundings.h"
#include "select/models.h"

namespace lanecast {

struct Links {
  std::vector<Link> by_level;     // the slowest that any rank sees; outermost level first
  std::vector<Overlap> overlaps;  // where it is known without measuring
  bool crowded = false;           // more ranks than cores on this host; not equal everywhere
};

/// Collective.
Links gather_links(const Surroundings& around, const Topology& topology, Router& router);

}  // namespace lanecast
