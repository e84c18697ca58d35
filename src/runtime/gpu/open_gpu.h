// SPDX-License-Identifier: Apache-2.0
// An open GPU with the library's kernels, and how its calls may use it.
#pragma once

#include <memory>
#include <string>

#include "device/gpu/kernels.h"

namespace lanecast {

struct OpenGpu {
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const gpu::Kernels> kernels;
  double timeout_s = 300;
  int max_ctas = 0;  // 0: as many as serve speed
  std::string kind;  // of all ranks' GPUs, by the driver's name; empty: several
};

}  // namespace lanecast
