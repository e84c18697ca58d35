// SPDX-License-Identifier: Apache-2.0
// From torch's element types and reduction operators to Lanecast's.
#pragma once

#include <ATen/ATen.h>
#include <lanecast/lanecast.h>

#include <cstddef>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace lanecast_torch {

/// What a tensor holds, as the core is told.
struct Elements {
  lanecastDataType_t dtype;
  std::size_t count;
};

/// For calls that only move data: any type, those unknown to the core as bytes. `count` elements.
Elements moved(const at::Tensor& tensor, std::size_t count);
Elements moved(const at::Tensor& tensor);

/// A tensor to be reduced, and by what. torch's operators on bool mean those of logic, as in ProcessGroupNCCL.
struct Reduction {
  at::Tensor numbers;  // shares the memory of the tensor given; complex ones seen as pairs
  at::Tensor from;     // what this rank contributes: for PREMUL_SUM a scaled copy, else the same
  lanecastDataType_t dtype;
  lanecastRedOp_t op;
  std::size_t per_element;  // numbers
  bool averages_integers;   // which the core does not: `op` sums
};

/// Raises ValueError (call, type, operator) for what cannot be reduced.
Reduction reduction(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);

}  // namespace lanecast_torch
