// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/modules.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace lanecast::gpu {
namespace {

constexpr KernelModule kModules[] = {kCollectiveKernels};

}  // namespace

std::span<const KernelModule> kernel_modules() { return kModules; }

const KernelModule& kernel_module(std::string_view name) {
  const auto* const found = std::ranges::find(kModules, name, &KernelModule::name);
  if (found == std::end(kModules)) throw UsageError("there is no module of kernels named " + std::string(name));
  return *found;
}

}  // namespace lanecast::gpu
