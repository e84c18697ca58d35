// SPDX-License-Identifier: Apache-2.0
// From the core's results to torch's exceptions, with the core's own words.
#pragma once

#include <lanecast/lanecast.h>

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lanecast_torch {

/// ValueError for usage errors, torch.distributed.DistBackendError for all others; null for success.
std::exception_ptr exception_for(lanecastResult_t result, const std::string& text);

/// Throws what exception_for() makes.
void check(lanecastResult_t result, const std::string& text);

/// What torch calls the end of a work that had this error; null: none.
c10d::WorkResult result_for(const std::exception_ptr& error);

}  // namespace lanecast_torch
