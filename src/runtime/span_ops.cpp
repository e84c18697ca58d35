// SPDX-License-Identifier: Apache-2.0
#include "runtime/span_ops.h"

#include <algorithm>

#include "device/host/kernels.h"

namespace lanecast {

void reduce_spans(const Reduction& reduction, SpanCursor dst, ReduceSources& sources, std::size_t bytes) {
  auto& [cursors, addresses] = sources;
  addresses.resize(cursors.size());
  while (bytes > 0) {
    std::size_t run = std::min(bytes, dst.together());
    for (SpanCursor& source : cursors) run = std::min(run, source.together());
    if (run == 0) throw InternalError("a reduction's sources are shorter than its result");
    for (std::size_t k = 0; k < cursors.size(); ++k) addresses[k] = cursors[k].take(run).data;
    host::reduce(reduction.dtype, reduction.op, dst.take(run).data, addresses, run / size_of(reduction.dtype),
                 reduction.divisor);
    bytes -= run;
  }
}

void ReduceOnArrival::consume(std::size_t /*offset*/, const std::byte* data, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t run = std::min({bytes, src_.together(), dst_.together()});
    if (run == 0) throw InternalError("a message is longer than the values it is added to");
    const void* const sources[] = {src_.take(run).data, data};
    host::reduce(reduction_.dtype, reduction_.op, dst_.take(run).data, sources, run / size_of(reduction_.dtype),
                 reduction_.divisor);
    data += run;
    bytes -= run;
  }
}

}  // namespace lanecast
