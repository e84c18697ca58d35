// SPDX-License-Identifier: Apache-2.0
// What a communicator chooses by: what the user names, else what lies in the user's cache and fits.
#pragma once

#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace lanecast {

/// Has every rank choose by rank 0's profile and model, if it has any. `wanted`: a file, several with commas between
/// them, one of each kind, a folder, "none"; empty: LANECAST_PROFILE, else the user's cache. Collective. Throws
/// UsageError on every rank where one that rank 0 names cannot be used. Returns what it has left aside in the cache,
/// and why, for the user to be told. `by_variable`: it is LANECAST_PROFILE that wants it, which an error then names.
std::vector<std::string> adopt_profile(Communicator& communicator, std::string wanted, bool by_variable = false,
                                       const Interrupt& interrupt = {});

}  // namespace lanecast
