// SPDX-License-Identifier: Apache-2.0
// The same collectives as an MPI library would run them: SMPI has their algorithms and the rules by which they choose.
#pragma once

#include "runtime/request/call.h"

namespace lanecast::simulator {

/// What selections do once, in their first call, is not to be timed.
void prepare_selection();
/// Blocks; results where `call` wants them.
void run_selected(const Call& call, int rank);

}  // namespace lanecast::simulator
