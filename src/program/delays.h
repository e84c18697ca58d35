// SPDX-License-Identifier: Apache-2.0
// How many chunks behind the first stage each step of a plan works, so that all stages are at work at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

/// The stages of these plans' messages, in order. None where each rank puts, and takes, in one stage alone: its queues
/// would do the same in the same order, and come to nothing in the first ticks. plans: of all ranks.
std::vector<std::int32_t> stages_of(const std::vector<Plan>& plans);

/// carried: by step, messages of other hosts. stages: each works a chunk behind the one before it; none: a stage works
/// as many chunks behind as its number says. Throws InternalError for a step that needs what comes in a later stage.
std::vector<std::uint32_t> delays_of(const Plan& plan, const std::vector<bool>& carried,
                                     const std::vector<std::int32_t>& stages);

}  // namespace lanecast
