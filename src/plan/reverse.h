// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/builder.h"

namespace lanecast {

/// What a rank does with what comes back to it. added: an all-gather becomes a reduce-scatter, a broadcast a reduce.
/// placed: a scatter becomes a gather.
enum class Returning { added, placed };

/// Plays `forward` backwards: what was sent comes back, and what was received is sent.
void reverse(PlanBuilder& plan, Returning how, const std::function<void(PlanWriter&)>& forward);

}  // namespace lanecast
