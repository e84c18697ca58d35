// SPDX-License-Identifier: Apache-2.0
// A slice of a call that is a call of its own.
#pragma once

#include "runtime/request/call.h"

namespace lanecast {

/// Does a slice of a call of this kind lie together, as a vector's? Slices of shares lie apart.
bool lies_together(Kind kind);
/// A slice that lies together, as a call of its own.
Call by_itself(const Call& slice);

}  // namespace lanecast
