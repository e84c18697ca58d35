// SPDX-License-Identifier: Apache-2.0
// lanecastConfig_t, as any version of the header has filled it.
#pragma once

#include <string>
#include <vector>

#include "helpers/starting.h"
#include "lanecast/lanecast.h"
#include "runtime/request/options.h"

namespace lanecast::capi {

/// Throws UsageError for a struct of no known size and for numbers out of range. Null: the defaults. nranks: of the
/// communicator.
CommunicatorOptions options_from(const lanecastConfig_t* config, int nranks);

/// As the Communicator takes it for its waits. Throws as options_from() does.
Interrupt interrupt_of(const lanecastConfig_t* config);

/// As adopt_profile() takes it. Throws as options_from() does.
std::string profile_of(const lanecastConfig_t* config);

/// May messages go over MPI as well? Throws as options_from() does.
bool over_mpi(const lanecastConfig_t* config);

/// How many helpers, and what runs them. Throws as options_from() does.
helpers::HelpersWanted helpers_in(const lanecastConfig_t* config);

/// Where the text of a failed init goes, or null. Reads nothing of a struct of no known size.
lanecastError_t* error_of(const lanecastConfig_t* config);

/// Tells what was left aside, where the program wants it.
void tell_left_aside(const lanecastConfig_t* config, const std::vector<std::string>& lines);

}  // namespace lanecast::capi
