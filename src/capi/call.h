// SPDX-License-Identifier: Apache-2.0
// From C's description of a collective to the core's.
#pragma once

#include "capi/handles.h"

namespace lanecast::capi {

/// Refers to the counts of `call`. Throws UsageError for enumerators that do not exist.
Call call_from(const lanecastCall_t& call, const Communicator& comm);

/// For what C lets be null.
template <class T>
void require(const T* pointer, const char* argument, const Communicator& comm) {
  if (!pointer) refuse(comm, std::string(argument) + ": null pointer");
}

}  // namespace lanecast::capi
