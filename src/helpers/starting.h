// SPDX-License-Identifier: Apache-2.0
// Helpers that the library starts, beside each rank of a job that knows nothing of them.
#pragma once

#include <memory>
#include <string>

#include "helpers/crew.h"

namespace lanecast::helpers {

struct HelpersWanted {
  int processes = 1;          // of each rank, itself included
  bool shared_cores = false;  // may they share cores, to try things out?
  std::string python;         // that runs helpers, and has this version of the package
  bool by_variable = false;   // which is for communicators of a whole job
};

inline constexpr int kMostProcesses = 64;

/// Collective. Throws UsageError on all ranks where one has too few cores or no such Python, TransportError where a
/// helper does not start.
std::unique_ptr<Crew> start_crew(Communicator& core, const HelpersWanted& wanted);

}  // namespace lanecast::helpers
