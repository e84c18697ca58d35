// SPDX-License-Identifier: Apache-2.0
// Element types and reduction operators, under the names of PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lanecast {

enum class DType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  float8_e4m3,  // OCP e4m3fn: no infinity, 0x7f is the only NaN pattern beside its negative
  float8_e5m2,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
};
inline constexpr int kDTypes = 14;

enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg, band, bor, bxor };
inline constexpr int kReduceOps = 8;

std::size_t size_of(DType dtype);  // bytes per element
bool is_float(DType dtype);

/// Bitwise operators need integers, the average needs floats; everything else goes.
bool supports(ReduceOp op, DType dtype);

std::string_view name_of(DType dtype);
std::string_view name_of(ReduceOp op);
std::optional<DType> dtype_from(std::string_view name);
std::optional<ReduceOp> op_from(std::string_view name);

}  // namespace lanecast
