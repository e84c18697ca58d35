// SPDX-License-Identifier: Apache-2.0
// What the program hands over, as the real NCCL takes it: lanecast/nccl.h has types of its own for the same things.
#pragma once

#include <cstring>

#include "capi/preload/real_nccl.h"
#include "lanecast/nccl.h"

namespace lanecast::preload {

inline NcclComm theirs(ncclComm_t comm) { return reinterpret_cast<NcclComm>(comm); }
inline NcclComm* theirs(ncclComm_t* comm) { return reinterpret_cast<NcclComm*>(comm); }
inline Stream theirs(CUstream_st* stream) { return reinterpret_cast<Stream>(stream); }
inline NcclUniqueId theirs(const ncclUniqueId& id) {
  NcclUniqueId same{};
  std::memcpy(same.bytes, id.internal, sizeof same.bytes);
  return same;
}

}  // namespace lanecast::preload
