// SPDX-License-Identifier: Apache-2.0
// Whether this process is the one that the launcher has started, or a child of it that has its variables.
#pragma once

#include <string>

#include "transport/mpi/launcher.h"

namespace lanecast::mpi {

/// Why MPI cannot start in this process, and what to do; empty where nothing speaks against it. A launcher waits for
/// one process for each rank: a second one with the variables of the same rank ends the job or waits for ever.
/// family: of the MPI that would start.
std::string inherited_rank(Family family);

}  // namespace lanecast::mpi
