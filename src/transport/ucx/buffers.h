// SPDX-License-Identifier: Apache-2.0
// A message's memory as UCX takes it.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "transport/transport.h"
#include "transport/ucx/ucp.h"

namespace lanecast::ucx {

// UCX's vectors are our spans.
static_assert(sizeof(Span) == sizeof(void*) + sizeof(std::size_t) && offsetof(Span, bytes) == sizeof(void*));

/// Of the host's memory, which is said, since UCX may ask a GPU's driver otherwise.
inline RequestParams params_for(std::span<const Span> memory, void* user_data) {
  RequestParams params;
  params.field_mask =
      RequestParams::kCallback | RequestParams::kUserData | RequestParams::kDatatype | RequestParams::kMemoryType;
  params.datatype = memory.size() > 1 ? RequestParams::kVectors : RequestParams::kBytes;
  params.user_data = user_data;
  return params;
}

/// What UCX takes as buffer and count.
inline std::pair<void*, std::size_t> buffer_of(std::span<const Span> memory, std::size_t bytes) {
  if (memory.size() > 1) return {const_cast<Span*>(memory.data()), memory.size()};
  return {memory.empty() ? nullptr : memory[0].data, bytes};
}

}  // namespace lanecast::ucx
