// SPDX-License-Identifier: Apache-2.0
// Which of a communicator's transports takes the messages of one composition, level by level.
#pragma once

#include <string>
#include <vector>

#include "runtime/wires/router.h"
#include "topology/topology.h"

namespace lanecast {

/// The index in the router of what takes messages to each peer, -1 for this rank itself. `names`: one, or one per level
/// of the hierarchy, outermost first. Throws UsageError for what is not open or does not reach.
std::vector<int> transports_by_level(Router& router, const Topology& hierarchy, int rank, const std::string& names);

}  // namespace lanecast
