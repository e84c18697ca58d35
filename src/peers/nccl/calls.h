// SPDX-License-Identifier: Apache-2.0
// Calls of NCCL's as collectives: those that it has, and gathers, scatters and all-to-alls of its messages.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "base/kind.h"
#include "device/gpu/nccl.h"

namespace lanecast::nccl {

/// `count` elements of what one rank brings to an all-gather or a gather, keeps of a reduce-scatter or a scatter, or
/// sends to each other one of an all-to-all, else of all.
struct NcclCollective {
  Kind kind{};
  DType dtype{};
  ReduceOp op{};
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int root = 0;
};

/// Does NCCL add values of this type?
bool adds(DType dtype);

struct NcclRank {
  gpu::NcclComm comm = nullptr;
  int rank = 0, size = 1;
};

/// Enqueues it; NCCL's result.
int run(const gpu::Nccl& nccl, const NcclRank& me, const NcclCollective& call, gpu::Stream stream);

}  // namespace lanecast::nccl
