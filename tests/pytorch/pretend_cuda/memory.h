// SPDX-License-Identifier: Apache-2.0
// Memory that is given back in the order of the stream on which it was taken, as torch's caching allocator does: once
// that stream, and those that have been recorded, get there, it is overwritten. Who still reads it reads nonsense.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace pretend {

/// Whoever gets the memory next waits for what the stream holds when it is given back.
void record_use(const c10::DataPtr& data, const c10::Stream& stream);

c10::Allocator* allocator();

}  // namespace pretend
