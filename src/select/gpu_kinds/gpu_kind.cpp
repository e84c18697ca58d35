// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "select/gpu_kinds/hopper.h"

namespace lanecast {

const GpuKind& gpu_kind(std::string_view name) {
  return std::ranges::count(gpu_kinds::kHopper.names, name) > 0 ? gpu_kinds::kHopper : kUnknownGpu;
}

const NcclTime* find_nccl_time(const GpuKind& gpu, Kind kind, int ranks, bool half, std::size_t bytes) {
  const NcclTime *found = nullptr, *of_half = nullptr;
  for (const NcclTime& row : gpu.nccl)
    if (row.kind == kind && row.ranks == ranks && row.from_bytes <= bytes) (row.half ? of_half : found) = &row;
  return half && of_half ? of_half : found;
}

}  // namespace lanecast
