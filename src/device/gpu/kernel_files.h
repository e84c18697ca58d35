// SPDX-License-Identifier: Apache-2.0
// The source of the kernels, as the build has put it into this library.
#pragma once

#include <span>

namespace lanecast::gpu {

struct SourceFile {
  const char* name;  // from src/, as other files include it
  const char* text;
};

/// What is in src/device/gpu/kernels/.
std::span<const SourceFile> kernel_files();

}  // namespace lanecast::gpu
