// SPDX-License-Identifier: Apache-2.0
// From the core's results to torch's exceptions, with the core's own words.
#pragma once

#include <lanecast/lanecast.h>

#include <exception>
#include <string>

namespace lanecast_torch {

/// ValueError for usage errors, torch.distributed.DistBackendError for all others; null for success.
std::exception_ptr exception_for(lanecastResult_t result, const std::string& text);

/// Throws what exception_for() makes.
void check(lanecastResult_t result, const std::string& text);

}  // namespace lanecast_torch
