// SPDX-License-Identifier: Apache-2.0
// Reductions on the CPU. Knows no rank and no plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace lanecast::host {

/// What becomes of a result before it is rounded and stored.
struct Finish {
  double divisor = 1.0;         // of an average, in the step that completes it
  std::uint32_t overrange = 0;  // overrange_of(): how sums of an average lie that leave the range, in and out
};

/// dst[i] = sources[0][i] op sources[1][i] op … from left to right, for i < count elements.
///
/// One rounding: 16- and 8-bit floats accumulate in fp32 and are rounded once, at the end, behind the divisor. op avg
/// adds like sum; with an overrange no sum of finite numbers is infinite, and no mean of them is.
/// dst may be exactly one of the sources; a partial overlap is not allowed. Any alignment.
/// min and max hand on NaN. Integers wrap. The bits are the same on every CPU: a NaN that comes out is the positive
/// quiet one (but one source without a divisor is copied as it is).
void reduce(DType dtype, ReduceOp op, void* dst, std::span<const void* const> sources, std::size_t count,
            const Finish& finish = {});

}  // namespace lanecast::host
