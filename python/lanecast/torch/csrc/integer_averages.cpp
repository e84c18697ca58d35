// SPDX-License-Identifier: Apache-2.0
#include "integer_averages.h"

namespace lanecast_torch {

std::vector<at::Tensor> summands(const at::Tensor& integers, int ranks) {
  if (integers.scalar_type() != at::kLong) return {integers.to(at::kLong)};
  const at::Tensor quotients = integers.div(ranks, "floor");
  return {quotients, integers - quotients * ranks};
}

at::Tensor mean_of(const std::vector<at::Tensor>& sums, int ranks) {
  if (sums.size() == 1) return sums[0].div(ranks, "trunc");
  const at::Tensor below = sums[0] + sums[1].div(ranks, "floor");
  // Rounded down so far; towards zero is up where the mean is negative and no integer.
  return below + below.lt(0).logical_and(sums[1].remainder(ranks).ne(0));
}

}  // namespace lanecast_torch
