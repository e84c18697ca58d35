// SPDX-License-Identifier: Apache-2.0
// Copies and reductions between lists of spans that cut the same bytes differently.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/store_choice.h"
#include "transport/span_cursor.h"

namespace lanecast {

/// Does any byte lie in both?
bool overlaps(std::span<const Span> a, std::span<const Span> b);

struct Reduction {
  DType dtype{};
  ReduceOp op{};
  double divisor = 1;           // an average's, in the step that completes it
  std::uint32_t overrange = 0;  // overrange_of() all ranks
};

/// Kept by the caller, so that a repeated reduction allocates nothing.
struct ReduceSources {
  std::vector<SpanCursor> cursors;
  std::vector<const void*> addresses;  // of the run under way
};

/// visit(target) for every run of bytes in which the target and all sources lie together; meanwhile
/// sources.addresses say where. `bytes`: of each of them.
template <class Visit>
void each_run(SpanCursor target, ReduceSources& sources, std::size_t bytes, const Visit& visit) {
  sources.addresses.resize(sources.cursors.size());
  while (bytes > 0) {
    std::size_t run = std::min(bytes, target.together());
    for (SpanCursor& source : sources.cursors) run = std::min(run, source.together());
    if (run == 0) throw InternalError("a reduction's sources are shorter than its result");
    for (std::size_t k = 0; k < sources.cursors.size(); ++k) sources.addresses[k] = sources.cursors[k].take(run).data;
    visit(target.take(run));
    bytes -= run;
  }
}

/// dst = sources[0] op sources[1] op …, `bytes` of each.
void reduce_spans(const Reduction& reduction, SpanCursor dst, ReduceSources& sources, std::size_t bytes, Stores stores);

/// Adds an arriving message to local values, as it arrives.
class ReduceOnArrival final : public Consumer {
 public:
  ReduceOnArrival() = default;
  /// `stores`: of sums that go to the same reader; null where none is known.
  ReduceOnArrival(const Reduction& reduction, SpanCursor src, SpanCursor dst, StoreChoice* stores)
      : reduction_(reduction), src_(src), dst_(dst), stores_(stores) {}
  void consume(std::size_t offset, const std::byte* data, std::size_t bytes) override;

 private:
  Reduction reduction_;
  SpanCursor src_, dst_;
  StoreChoice* stores_ = nullptr;
};

}  // namespace lanecast
