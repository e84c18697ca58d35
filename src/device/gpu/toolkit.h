// SPDX-License-Identifier: Apache-2.0
// Where the libraries of CUDA and ROCm lie that no package of Python's has brought.
#pragma once

#include <string>
#include <vector>

#include "device/gpu/driver.h"

namespace lanecast::gpu {

/// Where a vendor's toolkits install their libraries, the newest first.
std::vector<std::string> toolkit_folders(GpuVendor vendor);

}  // namespace lanecast::gpu
