// SPDX-License-Identifier: Apache-2.0
// The machine as SimGrid sees it: GPUs are hosts, NICs and the wires inside a node are links, groups are tapered.
#pragma once

#include <simgrid/s4u.hpp>
#include <vector>

#include "job.h"

namespace lanecast::simulator {

/// The host of each rank, filling node after node.
std::vector<simgrid::s4u::Host*> build_platform(const Machine& machine, int ranks);

}  // namespace lanecast::simulator
