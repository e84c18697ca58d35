// SPDX-License-Identifier: Apache-2.0
// The source of the kernels, as the build has put it into this library.
#pragma once

#include <span>
#include <string_view>

namespace lanecast::gpu {

struct SourceFile {
  const char* name;  // from src/, as other files include it
  const char* text;
};

/// What is in src/device/gpu/kernels/.
std::span<const SourceFile> kernel_files();

/// The one to compile; it includes the others.
inline constexpr std::string_view kMainFile = "device/gpu/kernels/kernels.cu";

}  // namespace lanecast::gpu
