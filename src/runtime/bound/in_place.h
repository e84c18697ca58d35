// SPDX-License-Identifier: Apache-2.0
// How a caller's two buffers lie to each other.
#pragma once

#include "runtime/bound/layout.h"

namespace lanecast {

/// Do the parts that the rank both brings and ends with lie at one address each? Throws UsageError for any other
/// overlap, and for null pointers where there are elements.
bool lies_in_place(const Collective& collective, int rank, const Shape& shape, const void* in, const void* out);

}  // namespace lanecast
