// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/slice_of_call.h"

#include "base/dtype.h"

namespace lanecast {

bool lies_together(Kind kind) { return kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce; }

Call by_itself(const Call& slice) {
  const std::size_t first = position(kZero, slice.slice, slice.count);
  const std::size_t before = first * size_of(slice.dtype);
  Call alone = slice;
  alone.slice = {};
  alone.count = position(kOne, slice.slice, slice.count) - first;
  if (slice.in) alone.in = static_cast<const std::byte*>(slice.in) + before;
  if (slice.out) alone.out = static_cast<std::byte*>(slice.out) + before;
  return alone;
}

}  // namespace lanecast
