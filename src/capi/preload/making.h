// SPDX-License-Identifier: Apache-2.0
// Makes Lanecast's communicators beside NCCL's.
#pragma once

#include <string>
#include <vector>

#include "capi/preload/real_nccl.h"

namespace lanecast::preload {

/// A communicator that NCCL has just made, by all of its ranks. Collective, and blocks: all ranks get Lanecast beside
/// it, or none. Says why, where none. Throws nothing.
void make_beside(NcclComm comm);

/// Several that this thread has made in one group, such as those of several GPUs. No rank gets Lanecast beside them;
/// each of their other ranks hears it, in make_beside() or here.
void refuse_together(const std::vector<NcclComm>& comms, const std::string& why);

/// Without asking other ranks, since all know: the communicator's calls go to NCCL.
void leave_to_nccl(NcclComm comm, const std::string& why);

/// Not made so that calls block: NCCL's ncclConfig_t. Null: they block.
bool blocks(const void* config);

}  // namespace lanecast::preload
