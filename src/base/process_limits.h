// SPDX-License-Identifier: Apache-2.0
// Limits of this process that a library below meets without naming them.
#pragma once

#include <string>

namespace lanecast {

/// "; " and what to do, for each limit of files that this process has about reached; empty where there is none.
std::string limits_about_reached();

}  // namespace lanecast
