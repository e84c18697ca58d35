// SPDX-License-Identifier: Apache-2.0
// What a step adds by, wherever its values lie.
#pragma once

#include "base/overrange.h"
#include "runtime/bound/layout.h"
#include "runtime/bound/span_ops.h"

namespace lanecast {

inline Reduction reduction_of(const Plan& plan, const Step& step, const Shape& shape) {
  const ReduceOp op = step.op == kOpOfCall ? shape.op : static_cast<ReduceOp>(step.op);
  const bool divides = step.completes && op == ReduceOp::avg;
  const auto contributions = step.divisor ? static_cast<int>(step.divisor) : plan.collective.size;
  // A composition's whole sum lies there before a step of its own divides it.
  const int ranks = plan.collective.size + (plan.collective.composition ? 1 : 0);
  const std::uint32_t overrange = overrange_of(shape.dtype, op, ranks);
  const bool at_once = divides && step.kind == StepKind::reduce && step.sources == static_cast<std::uint32_t>(ranks);
  return {shape.dtype, op, divides ? static_cast<double>(contributions) : 1.0,
          at_once && overrange != 0 ? kAddedAtOnce : overrange};
}

}  // namespace lanecast
