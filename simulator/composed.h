// SPDX-License-Identifier: Apache-2.0
// The simulated collectives as HiCCL composes them (its Table II).
#pragma once

#include <memory>

#include "plan/composition.h"

namespace lanecast::simulator {

/// All-gather and reduce-scatter in one step; an all-reduce is the second, a fence, and the first.
std::shared_ptr<const Composition> compose(Kind kind, int ranks);

}  // namespace lanecast::simulator
