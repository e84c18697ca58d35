// SPDX-License-Identifier: Apache-2.0
// What a partial sum of an average may be that its type has no number for.
//
// The mean of numbers of a type lies among them, their sum need not. So where an average is under way, a sum beyond the
// largest number lies in one of the patterns that mean no number: as many are free as a mantissa has values. They count
// on where the numbers end, in steps that are 2^r times as long, so that the sums of all ranks fit; all other sums lie
// as they always do. 8-bit floats have no pattern to spare.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace lanecast {

/// Of a sum that one step makes of what the ranks bring, and divides: no sum is on the way, and each NaN is one.
inline constexpr std::uint32_t kAddedAtOnce = ~std::uint32_t{0};

/// Among so many ranks: 1 + r; 0 where sums end at the type's range: everywhere but in averages of 16 bits and more.
std::uint32_t overrange_of(DType dtype, ReduceOp op, int ranks);

}  // namespace lanecast
