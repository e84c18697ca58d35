// SPDX-License-Identifier: Apache-2.0
// Averages of integers, which the core does not take: by sums that no rank's numbers can make overflow.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace lanecast_torch {

/// What the ranks have to sum: the numbers in int64; of int64 itself quotients by the number of ranks, and remainders.
std::vector<at::Tensor> summands(const at::Tensor& integers, int ranks);

/// From the sums of all ranks: their sum, divided towards zero.
at::Tensor mean_of(const std::vector<at::Tensor>& sums, int ranks);

}  // namespace lanecast_torch
