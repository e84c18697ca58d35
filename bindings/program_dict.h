// SPDX-License-Identifier: Apache-2.0
// Programs as they are read back from plain data: exported ones, and mutants of them for tests.
#pragma once

#include "plan_dict.h"
#include "program/program.h"

namespace lanecast {

/// What Program.to_dict has given, but for how averages are kept from overflowing, which only a GPU has to know. Throws
/// UsageError for what no program can be; whether its queues come to their ends is for check_queues() to say.
Program program_from_dict(const PlanDict& dict);

}  // namespace lanecast
