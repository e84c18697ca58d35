// SPDX-License-Identifier: Apache-2.0
// Code as NVIDIA's and AMD's compilers write it: machine code in an ELF file, or PTX, which is text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanecast::gpu {

/// Names of the kernels in it: NVIDIA's have a section each or an entry of PTX's, AMD's a symbol for their descriptor.
/// Throws InternalError for what is neither.
std::vector<std::string> kernel_names(std::string_view code);

}  // namespace lanecast::gpu
