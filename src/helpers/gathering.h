// SPDX-License-Identifier: Apache-2.0
// What leaders tell each other beside their calls.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace lanecast::helpers {

/// What each rank says, in rank order. Collective.
std::vector<nlohmann::json> gather(Communicator& core, const nlohmann::json& mine);

}  // namespace lanecast::helpers
