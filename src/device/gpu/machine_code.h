// SPDX-License-Identifier: Apache-2.0
// Machine code as NVIDIA's and AMD's compilers write it: an ELF file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanecast::gpu {

/// Names of the kernels in it: NVIDIA's have a section each, AMD's a symbol for their descriptor. Throws InternalError
/// for what is no such file.
std::vector<std::string> kernel_names(std::string_view code);

}  // namespace lanecast::gpu
