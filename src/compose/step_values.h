// SPDX-License-Identifier: Apache-2.0
// The values that one rank holds for the primitives of a step, beside the newest ones from before it.
#pragma once

#include <unordered_map>
#include <vector>

#include "plan/builder.h"
#include "plan/composition.h"

namespace lanecast {

/// A stripe of a primitive.
struct StripeOf {
  std::uint32_t primitive = 0;
  std::int32_t number = 0;
  std::int32_t count = 1;
};

class StepValues {
 public:
  StepValues(const Composition& composition, PlanBuilder& plan) : composition_(composition), plan_(plan) {}

  /// This rank takes part. Before the first write of the step.
  void expect(StripeOf stripe);

  /// Where the value lies now: what has arrived, else what the rank had before the step.
  const Blocks& held(StripeOf stripe);
  /// Where the next arrival is to be written: the output, unless somebody still has to read what lies there.
  const Blocks& destination(StripeOf stripe);
  /// An average's sum is complete: divides it, once.
  void divide(StripeOf stripe, std::int32_t stage);

  /// What the primitives have written is the newest from now on.
  void fence();

 private:
  struct Value {
    StripeOf stripe;
    Pieces pieces;
    Blocks blocks;
    bool fresh = false;  // written in this step
    bool divided = false;
  };
  static constexpr std::int32_t kNobody = -1, kSeveral = -2;

  Value& value(StripeOf stripe);
  const Primitive& primitive(StripeOf stripe) const { return composition_.primitives()[stripe.primitive]; }
  bool reads_newest(StripeOf stripe) const;
  bool output_is_free(const Value& value);

  const Composition& composition_;
  PlanBuilder& plan_;
  std::vector<Value> values_;
  std::unordered_map<std::uint64_t, std::size_t> index_;
  /// Who reads the newest value of which piece: a primitive, kNobody or kSeveral.
  std::unordered_map<std::int32_t, IntervalMap<std::int32_t>> readers_;
};

}  // namespace lanecast
