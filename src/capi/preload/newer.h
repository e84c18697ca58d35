// SPDX-License-Identifier: Apache-2.0
// Functions of NCCL that lanecast/nccl.h does not have, and that this library has a part in.
#pragma once

#include "lanecast/nccl.h"

extern "C" {

LANECAST_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank,
                                       ncclComm_t* larger, ncclConfig_t* config);
LANECAST_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);

}  // extern "C"
