// SPDX-License-Identifier: Apache-2.0
// What this library says, where NCCL says its own: by NCCL_DEBUG, and into the file of NCCL_DEBUG_FILE.
#pragma once

#include <string>

namespace lanecast::preload {

/// NCCL_DEBUG is INFO, ABORT or TRACE.
bool wants_info();

void tell_info(const std::string& line);
/// To standard error as well where nobody has asked: what a user has to know.
void tell_always(const std::string& line);

}  // namespace lanecast::preload
