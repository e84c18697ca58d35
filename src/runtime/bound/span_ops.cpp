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

namespace {

/// `addresses`: of the sources; in the end they lie behind them.
void reduce_run(const Reduction& reduction, Span target, std::span<const void*> addresses, Stores stores) {
  constexpr std::size_t kTileBytes = 4096;  // stays in the nearest cache until it is copied past it
  const host::Finish finish{reduction.divisor, reduction.overrange};
  const std::size_t element = size_of(reduction.dtype);
  if (stores == Stores::ordinary)
    return host::reduce(reduction.dtype, reduction.op, target.data, addresses, target.bytes / element, finish);
  alignas(64) std::byte tile[kTileBytes];
  for (std::size_t done = 0; done < target.bytes; done += kTileBytes) {
    const std::size_t bytes = std::min(kTileBytes, target.bytes - done);
    host::reduce(reduction.dtype, reduction.op, tile, addresses, bytes / element, finish);
    copy(target.data + done, tile, bytes, stores);
    for (const void*& source : addresses) source = static_cast<const std::byte*>(source) + bytes;
  }
}

}  // namespace

void reduce_spans(const Reduction& reduction, SpanCursor dst, ReduceSources& sources, std::size_t bytes,
                  Stores stores) {
  each_run(dst, sources, bytes, [&](Span target) { reduce_run(reduction, target, sources.addresses, stores); });
}

void ReduceOnArrival::consume(std::size_t /*offset*/, const std::byte* data, std::size_t bytes) {
  const auto add = [&](Stores stores) {
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t run = std::min({left, src_.together(), dst_.together()});
      if (run == 0) throw InternalError("a message is longer than the values it is added to");
      const void* sources[] = {src_.take(run).data, data};
      reduce_run(reduction_, dst_.take(run), sources, stores);
      data += run;
      left -= run;
    }
  };
  write_by(stores_, Stores::ordinary, bytes, add);
}

}  // namespace lanecast
