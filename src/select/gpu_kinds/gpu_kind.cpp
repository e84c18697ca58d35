// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "select/gpu_kinds/hopper.h"

namespace lanecast {

const GpuKind& gpu_kind(std::string_view name) {
  return std::ranges::count(gpu_kinds::kHopper.names, name) > 0 ? gpu_kinds::kHopper : kUnknownGpu;
}

}  // namespace lanecast
