// SPDX-License-Identifier: Apache-2.0
// lanecastConfig_t, as any version of the header has filled it.
#pragma once

#include <string>

#include "lanecast/lanecast.h"
#include "runtime/options.h"

namespace lanecast::capi {

/// Throws UsageError for a struct of no known size and for numbers out of range. Null: the defaults.
CommunicatorOptions options_from(const lanecastConfig_t* config);

/// As adopt_profile() takes it. Throws as options_from() does.
std::string profile_of(const lanecastConfig_t* config);

/// May messages go over MPI as well? Throws as options_from() does.
bool over_mpi(const lanecastConfig_t* config);

/// Where the text of a failed init goes, or null. Reads nothing of a struct of no known size.
lanecastError_t* error_of(const lanecastConfig_t* config);

}  // namespace lanecast::capi
