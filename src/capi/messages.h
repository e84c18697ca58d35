// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, from C's structs.
#pragma once

#include <vector>

#include "capi/handles.h"

namespace lanecast::capi {

/// Throws UsageError (argument, rank).
Transfer transfer_from(Transfer::Way way, const lanecastMessage_t& message, const Communicator& comm);
std::vector<Transfer> transfers_from(const lanecastMessage_t* messages, std::size_t n, const Communicator& comm);

}  // namespace lanecast::capi
