// SPDX-License-Identifier: Apache-2.0
// A communicator of some of a job's ranks that is no split of another one. Variables of the environment describe the
// whole job: such a part takes of them what a split would, and goes without what does not fit it.
#pragma once

#include <string>
#include <vector>

#include "runtime/request/options.h"

namespace lanecast {

/// Places the part in the job's topology, or on its own hosts, and keeps the transports of the levels that it spans.
/// Throws UsageError for a part that does not exist, and for what does not fit the job.
void fit_to_part(CommunicatorOptions& options, const PartOfJob& part, const std::vector<std::string>& hosts);

/// Clears an algorithm that is meant for the job and that no call has here.
void leave_aside_what_does_not_fit(CommunicatorOptions& options, const Topology& here);

}  // namespace lanecast
