// SPDX-License-Identifier: Apache-2.0
// The shape of a call: what is bound once and used again for equal calls, whatever their buffers.
#pragma once

#include "runtime/bound/layout.h"
#include "runtime/request/call.h"
#include "runtime/watch/call_log.h"

namespace lanecast {

/// With the chunks that the call asks for.
Shape shape_of(const Call& call);
/// Has the call this shape? Copies nothing.
bool describes(const Call& call, const Shape& shape);

/// What the log says of it: all but number and times.
CallRecord record_of(const Plan& plan, const Shape& shape);

}  // namespace lanecast
