// SPDX-License-Identifier: Apache-2.0
// What a call on GPUs between hosts does beside its messages, as stages of the cost model.
#pragma once

#include <vector>

#include "select/cost.h"

namespace lanecast {

/// A group step of a host's GPUs, by peer memory.
Stage group_step(const Load& load, const Models& models);

/// Each rank's copies to the memory in which its messages leave, and from that in which they come. Of the host's.
std::vector<Stage> staging_copies(const Stage& messages, const Models& models);

/// What the proxy does for messages, chunk by chunk.
Stage carrying(const std::vector<Stage>& messages);

}  // namespace lanecast
