// SPDX-License-Identifier: Apache-2.0
// What a call on GPUs between hosts does beside its messages, as stages of the cost model.
#pragma once

#include <vector>

#include "select/cost.h"

namespace lanecast {

/// A group step of a host's GPUs, by peer memory.
Stage group_step(const Load& load, const Models& models);

/// Each rank's copies to the slots from which its messages leave, and from those into which they come.
std::vector<Stage> slot_copies(const Stage& messages, bool on_host, const Models& models);

/// What each further chunk takes for each message to another host: lanes go through its instructions and those of its
/// hosts' steps, and hear of and say what they wait for. As measured between H200s.
inline constexpr double kChunkOnLanesS = 10e-6;

}  // namespace lanecast
