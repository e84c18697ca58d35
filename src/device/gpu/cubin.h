// SPDX-License-Identifier: Apache-2.0
// Machine code as NVIDIA's compilers write it: an ELF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanecast::gpu {

/// Names of the kernels in it: each has a section of its own. Throws InternalError for what is no such file.
std::vector<std::string> kernel_names(std::string_view cubin);

}  // namespace lanecast::gpu
