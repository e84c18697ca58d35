// SPDX-License-Identifier: Apache-2.0
// Functions of NCCL that lanecast/nccl.h does not have, and that this library has a part in.
#pragma once

#include "lanecast/nccl.h"

#define NCCL_SHRINK_ABORT 0x01
#define NCCL_WIN_COLL_SYMMETRIC 0x01

extern "C" {

typedef struct ncclWindow_vidmem* ncclWindow_t;

LANECAST_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int ids, ncclUniqueId* all,
                                                   ncclConfig_t* config);
LANECAST_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* part,
                                         ncclConfig_t* config, int flags);
LANECAST_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank,
                                       ncclComm_t* larger, ncclConfig_t* config);
LANECAST_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
LANECAST_API ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle);
LANECAST_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);
LANECAST_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window,
                                                 int flags);
LANECAST_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

}  // extern "C"
