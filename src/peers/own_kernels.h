// SPDX-License-Identifier: Apache-2.0
// What a rank's kernels that wait for others are launched with.
#pragma once

#include "peers/faults.h"
#include "peers/launches.h"

namespace lanecast::peers {

struct OwnKernels {
  const Launches& launches;
  const Faults& faults;
  gpu::Address control;  // gpu::Control
};

}  // namespace lanecast::peers
