// SPDX-License-Identifier: Apache-2.0
#include "base/overrange.h"

#include <bit>

namespace lanecast {
namespace {

int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return 52;
    case DType::float32:
      return 23;
    case DType::float16:
      return 10;
    case DType::bfloat16:
      return 7;
    default:
      return 0;
  }
}

}  // namespace

std::uint32_t overrange_of(DType dtype, ReduceOp op, int ranks) {
  const int mantissa = mantissa_bits(dtype);
  if (op != ReduceOp::avg || mantissa == 0 || ranks < 2) return 0;
  // Of all ranks but the one who adds the last and divides at once; libraries, which add the wider types alone, hand
  // back the whole sum. How many patterns lie between the end of the range and that?
  const auto most = static_cast<std::uint64_t>(size_of(dtype) > 2 ? ranks : ranks - 1);
  const int doublings = std::bit_width(most) - 1;
  const std::uint64_t steps = (static_cast<std::uint64_t>(doublings) << mantissa) +
                              (((most - (std::uint64_t{1} << doublings)) << mantissa) >> doublings) + 1;
  const std::uint64_t free = (std::uint64_t{1} << mantissa) - 3;  // beside infinity and two NaNs
  std::uint32_t longer = 0;
  while ((steps >> longer) + 1 > free) ++longer;
  return longer + 1;
}

}  // namespace lanecast
