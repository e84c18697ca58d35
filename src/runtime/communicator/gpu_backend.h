// SPDX-License-Identifier: Apache-2.0
// How and where a call on a GPU's memory is enqueued.
#pragma once

#include <cstdint>

namespace lanecast {

/// What moves the memory: fused kernels on peer memory, a program of a plan within one host, the messages of a plan
/// between hosts, or NCCL's collective.
enum class GpuBackend : std::uint8_t { peers, program, plan, native };

/// Where a call's buffers lie, and what it comes behind: on that stream, or apart on the executor's own.
struct OnStream {
  void* stream = nullptr;
  int device = 0;
  bool apart = false;
};

}  // namespace lanecast
