// SPDX-License-Identifier: Apache-2.0
#include "select/gpu_kinds/gpu_kind.h"

#include <algorithm>

namespace lanecast {

const GpuKind& gpu_kind(std::string_view name) {
  return std::ranges::count(kHopper.names, name) > 0 ? kHopper : kUnknownGpu;
}

}  // namespace lanecast
