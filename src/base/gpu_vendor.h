// SPDX-License-Identifier: Apache-2.0
// Whose GPUs: NVIDIA's, of which a driver and libraries speak as CUDA, or AMD's, of which they do as HIP and ROCm.
#pragma once

#include <cstdint>

namespace lanecast {

enum class GpuVendor : std::uint8_t { nvidia, amd };

}  // namespace lanecast
