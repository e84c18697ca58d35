// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/span_ops.h"

#include <algorithm>

#include "device/host/kernels.h"

namespace lanecast {

bool overlaps(std::span<const Span> a, std::span<const Span> b) {
  for (const Span& x : a)
    for (const Span& y : b)
      if (x.data < y.data + y.bytes && y.data < x.data + x.bytes) return true;
  return false;
}

void reduce_spans(const Reduction& reduction, SpanCursor dst, ReduceSources& sources, std::size_t bytes) {
  each_run(dst, sources, bytes, [&](Span target) {
    host::reduce(reduction.dtype, reduction.op, target.data, sources.addresses, target.bytes / size_of(reduction.dtype),
                 {reduction.divisor, reduction.overrange});
  });
}

void ReduceOnArrival::consume(std::size_t /*offset*/, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t run = std::min({bytes, src_.together(), dst_.together()});
    if (run == 0) throw InternalError("a message is longer than the values it is added to");
    const void* const sources[] = {src_.take(run).data, data};
    host::reduce(reduction_.dtype, reduction_.op, dst_.take(run).data, sources, run / size_of(reduction_.dtype),
                 {reduction_.divisor, reduction_.overrange});
    data += run;
    bytes -= run;
  }
}

}  // namespace lanecast
