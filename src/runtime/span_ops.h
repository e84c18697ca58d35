// SPDX-License-Identifier: Apache-2.0
// Copies and reductions between lists of spans that cut the same bytes differently.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "transport/span_cursor.h"

namespace lanecast {

struct Reduction {
  DType dtype{};
  ReduceOp op{};
  double divisor = 1;  // an average's, in the step that completes it
};

/// Kept by the caller, so that a repeated reduction allocates nothing.
struct ReduceSources {
  std::vector<SpanCursor> cursors;
  std::vector<const void*> addresses;  // used by reduce_spans
};

/// dst = sources[0] op sources[1] op …, `bytes` of each.
void reduce_spans(const Reduction& reduction, SpanCursor dst, ReduceSources& sources, std::size_t bytes);

/// Adds an arriving message to local values, as it arrives.
class ReduceOnArrival final : public Consumer {
 public:
  ReduceOnArrival() = default;
  ReduceOnArrival(const Reduction& reduction, SpanCursor src, SpanCursor dst)
      : reduction_(reduction), src_(src), dst_(dst) {}
  void consume(std::size_t offset, const std::byte* data, std::size_t bytes) override;

 private:
  Reduction reduction_;
  SpanCursor src_, dst_;
};

}  // namespace lanecast
