// SPDX-License-Identifier: Apache-2.0
// Another order of the same work: the rank's own share goes to the output first, and is sent from there.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace lanecast {

/// The plan with its copy from the input to the output ahead of all other steps, and with every send of what that copy
/// moves reading the output. Other ranks see no difference, so each may decide for itself. Nothing where the plan ends
/// in no such copy, or sends nothing of it.
std::optional<Plan> own_share_first(const Plan& plan);

}  // namespace lanecast
