// SPDX-License-Identifier: Apache-2.0
// Where carried messages lie: in slots, on the GPU or in the host's memory.
#pragma once

#include "program/sliced_parts.h"

namespace lanecast {

/// A message of the plan's step, but for its slots. Throws InternalError where all ranks are on one host.
Carried carried_message(const Plan& plan, std::uint32_t step, const ProgramShape& shape, Slicing slicing);

/// Gives all carried messages of the program their slots: one message's behind the other's, as many of each as there is
/// room for.
void place_carried(Program& program);

}  // namespace lanecast
