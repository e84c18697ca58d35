// SPDX-License-Identifier: Apache-2.0
// The NCCL that the program would have without us: it makes the communicators, and takes what Lanecast does not.
#pragma once

#include <cstddef>
#include <string>

#include "device/gpu/nccl.h"

namespace lanecast::preload {

using gpu::NcclComm;
using gpu::NcclUniqueId;
using gpu::Stream;

/// By the names of nccl.h. Where there is no NCCL, or an older one than the call, a call says so and fails.
struct RealNccl {
  void* handle = nullptr;
  std::string path;
  int version = 0;      // 22809 is 2.28.9
  std::string too_old;  // why Lanecast takes nothing; empty: it may

  int (*GetVersion)(int*);
  const char* (*GetLastError)(NcclComm);
  int (*CommInitRank)(NcclComm*, int size, NcclUniqueId, int rank);
  int (*CommInitRankConfig)(NcclComm*, int size, NcclUniqueId, int rank, void* config);
  int (*CommInitRankScalable)(NcclComm*, int size, int rank, int ids, NcclUniqueId*, void* config);
  int (*CommInitAll)(NcclComm*, int gpus, const int* list);
  int (*CommSplit)(NcclComm, int color, int key, NcclComm*, void* config);
  int (*CommShrink)(NcclComm, int* excluded, int count, NcclComm*, void* config, int flags);
  int (*CommGrow)(NcclComm, int size, const NcclUniqueId*, int rank, NcclComm*, void* config);
  int (*CommFinalize)(NcclComm);
  int (*CommDestroy)(NcclComm);
  int (*CommAbort)(NcclComm);
  int (*CommRevoke)(NcclComm, int flags);
  int (*CommGetAsyncError)(NcclComm, int*);
  int (*CommCount)(NcclComm, int*);
  int (*CommUserRank)(NcclComm, int*);
  int (*CommCuDevice)(NcclComm, int*);
  int (*CommRegister)(NcclComm, void*, std::size_t, void** handle);
  int (*CommDeregister)(NcclComm, void* handle);
  int (*CommWindowRegister)(NcclComm, void*, std::size_t, void** window, int flags);
  int (*CommWindowDeregister)(NcclComm, void* window);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*AllReduce)(const void*, void*, std::size_t, int type, int op, NcclComm, Stream);
  int (*AllGather)(const void*, void*, std::size_t, int type, NcclComm, Stream);
  int (*ReduceScatter)(const void*, void*, std::size_t, int type, int op, NcclComm, Stream);
  int (*Broadcast)(const void*, void*, std::size_t, int type, int root, NcclComm, Stream);
  int (*Reduce)(const void*, void*, std::size_t, int type, int op, int root, NcclComm, Stream);
  int (*AlltoAll)(const void*, void*, std::size_t, int type, NcclComm, Stream);
  int (*Gather)(const void*, void*, std::size_t, int type, int root, NcclComm, Stream);
  int (*Scatter)(const void*, void*, std::size_t, int type, int root, NcclComm, Stream);
  int (*Send)(const void*, std::size_t, int type, int peer, NcclComm, Stream);
  int (*Recv)(void*, std::size_t, int type, int peer, NcclComm, Stream);
};

/// Found by the first call: preloading alone opens nothing, since shells and helpers of a job are preloaded, too.
const RealNccl& real_nccl();

/// Its function of this name; one that says what is missing and fails where it has none.
void* real_function(const char* name);

}  // namespace lanecast::preload
