// SPDX-License-Identifier: Apache-2.0
// A value as a proof follows it: whose contributions, added by what, divided by what.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

template <class Algebra>
struct Term {
  static constexpr std::int8_t kPlain = -2;  // nothing has been added to it

  typename Algebra::Value value{};
  std::int8_t op = kPlain;    // that added it: a ReduceOp or kOpOfCall
  std::uint32_t divisor = 0;  // of a finished average; 0: none

  /// May this operator add to it as if its contributions stood there one by one?
  bool open_to(std::int8_t other) const { return divisor == 0 && (op == kPlain || op == other); }
  friend bool operator==(const Term&, const Term&) = default;
};

/// A reduction of values, of which those that another operator has made count as one contribution each.
template <class Algebra, class Sum>
Term<Algebra> reduced(const Algebra& algebra, std::span<const Term<Algebra>> sources, std::int8_t op, Sum&& sum) {
  if (sources.size() == 1) return sources[0];
  std::vector<typename Algebra::Value> operands;
  operands.reserve(sources.size());
  for (const Term<Algebra>& source : sources)
    operands.push_back(source.open_to(op) ? source.value : algebra.closed(source.value, source.op, source.divisor));
  return {sum(operands), op, 0};
}

}  // namespace lanecast
