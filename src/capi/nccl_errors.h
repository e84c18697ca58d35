// SPDX-License-Identifier: Apache-2.0
// Texts of what lanecast/nccl.h refuses by itself: of a communicator's, or of this thread's where there is none.
#pragma once

#include <string_view>

#include "capi/handles.h"
#include "lanecast/nccl.h"

namespace lanecast::capi {

/// For ncclGetLastError(NULL).
lanecastError_t& error_of_thread();

/// comm: may be null.
inline ncclResult_t refused(lanecastComm_t comm, ncclResult_t result, std::string_view text) {
  failed(lanecastUsageError, text, comm ? comm->error.get() : &error_of_thread());
  return result;
}

}  // namespace lanecast::capi
