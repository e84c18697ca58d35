// SPDX-License-Identifier: Apache-2.0
// What a step adds by, wherever its values lie.
#pragma once

#include "runtime/layout.h"
#include "runtime/span_ops.h"

namespace lanecast {

inline Reduction reduction_of(const Plan& plan, const Step& step, const Shape& shape) {
  const ReduceOp op = step.op == kOpOfCall ? shape.op : static_cast<ReduceOp>(step.op);
  const bool divides = step.completes && op == ReduceOp::avg;
  const auto contributions = step.divisor ? static_cast<int>(step.divisor) : plan.collective.size;
  return {shape.dtype, op, divides ? static_cast<double>(contributions) : 1.0};
}

}  // namespace lanecast
