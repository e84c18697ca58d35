// SPDX-License-Identifier: Apache-2.0
// Checks a reduction's arguments and hands it to a kernel.
#include <string>

#include "base/copy.h"
#include "base/error.h"
#include "device/host/variant.h"

namespace lanecast::host {
namespace {

void check(const ReduceArguments& reduction) {
  const std::string name = std::string(name_of(reduction.op)) + " of " + std::string(name_of(reduction.dtype));
  if (!supports(reduction.op, reduction.dtype))
    throw UsageError("reduce: no " + name +
                     (is_float(reduction.dtype) ? ": bitwise operators need an integer type"
                                                : ": an average needs a floating-point type"));
  if (reduction.sources.empty()) throw UsageError("reduce: " + name + " needs at least one source");
  if (reduction.finish.divisor != 1.0 && !is_float(reduction.dtype))
    throw UsageError("reduce: " + name + " with a divisor: only floating-point types can be divided");
}

}  // namespace

void reduce_with(const Variant& variant, const ReduceArguments& reduction) {
  check(reduction);
  const auto& [dtype, op, dst, sources, count, finish] = reduction;
  if (count == 0) return;
  if (sources.size() == 1 && finish.divisor == 1.0) {
    if (dst != sources[0])
      copy(static_cast<std::byte*>(dst), static_cast<const std::byte*>(sources[0]), count * size_of(dtype),
           Stores::ordinary);
    return;
  }
  const ReduceKernel kernel = variant.reduce[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  kernel(dst, sources.data(), sources.size(), count, finish);
}

}  // namespace lanecast::host
