// SPDX-License-Identifier: Apache-2.0
// How many chunks behind the first stage each step of a plan works, so that all stages are at work at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

/// carried: by step, messages of other hosts. Throws InternalError for a step that needs what comes in a later stage.
std::vector<std::uint32_t> delays_of(const Plan& plan, const std::vector<bool>& carried);

}  // namespace lanecast
