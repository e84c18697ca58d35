// SPDX-License-Identifier: Apache-2.0
// How a call on a GPU's memory goes.
#pragma once

#include "runtime/communicator/gpu_calls.h"

namespace lanecast {

struct GpuCalls::Route {
  GpuBackend backend = GpuBackend::peers;
  EngineCalls::Way way = {};  // of calls by peers, and of NCCL's that were chosen beside them
  bool captured = false;      // by a graph

  /// Whoever looks after the call does so in a thread.
  bool needs_thread() const { return backend == GpuBackend::proxied || (backend == GpuBackend::nccl && !captured); }
};

}  // namespace lanecast
