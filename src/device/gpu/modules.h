// SPDX-License-Identifier: Apache-2.0
// What is compiled and loaded at a time: the one list of it, for this library as it runs and for the build that makes
// machine code beforehand.
#pragma once

#include <span>
#include <string_view>

namespace lanecast::gpu {

struct KernelModule {
  std::string_view name;    // of its file in a package
  std::string_view main;    // of kernel_files(): the one to compile, which includes others
  std::string_view define;  // "NAME=VALUE" for the compiler; empty: none
};

inline constexpr KernelModule kCollectiveKernels{"kernels", "device/gpu/kernels/kernels.cu", ""};

/// All that this library may load.
std::span<const KernelModule> kernel_modules();

/// Throws UsageError where there is none of this name.
const KernelModule& kernel_module(std::string_view name);

}  // namespace lanecast::gpu
