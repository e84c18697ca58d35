// SPDX-License-Identifier: Apache-2.0
// From what a composition means to what one rank does on a machine.
#pragma once

#include <memory>

#include "compose/machine.h"
#include "plan/composition.h"
#include "plan/plan.h"

namespace lanecast {

/// This rank's plan: the primitives of a step striped, chained and spread over trees as the machine says, those of one
/// stage and peer in one message. Messages are listed in one order on all ranks, and waits point backwards in it, so
/// nothing deadlocks. Throws UsageError where the composition gives a rank no value of its output.
Plan lower(const std::shared_ptr<const Composition>& composition, int rank, const Machine& machine, bool in_place);

}  // namespace lanecast
