// SPDX-License-Identifier: Apache-2.0
// Where CUDA's libraries lie that no package of Python's has brought.
#pragma once

#include <string>
#include <vector>

namespace lanecast::gpu {

/// Where CUDA's toolkits install their libraries, the newest first.
std::vector<std::string> toolkit_folders();

}  // namespace lanecast::gpu
