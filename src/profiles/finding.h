// SPDX-License-Identifier: Apache-2.0
// What a communicator chooses by: what the user names, else what lies in the user's cache and fits.
#pragma once

#include <string>

#include "profiles/job_shape.h"
#include "select/models.h"

namespace lanecast {

/// Has every rank choose by rank 0's profile and model, if it has any. `wanted`: a file, two with a comma between them,
/// a folder, "none"; empty: LANECAST_PROFILE, else the user's cache. Collective. Throws UsageError on every rank where
/// one that rank 0 names cannot be used; one in the cache is left aside, which standard error hears of.
void adopt_profile(Communicator& communicator, std::string wanted);

}  // namespace lanecast
