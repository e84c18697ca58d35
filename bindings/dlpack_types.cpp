// SPDX-License-Identifier: Apache-2.0
#include "dlpack_types.h"

#include <algorithm>
#include <array>

namespace lanecast {
namespace {

/// Of DLPack's DLDataTypeCode.
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kFloat8E4m3fn = 10, kFloat8E5m2 = 12 };

struct Known {
  Code code;
  std::uint8_t bits;
  DType dtype;
};

constexpr std::array<Known, kDTypes> kKnown{{
    {kFloat, 64, DType::float64},
    {kFloat, 32, DType::float32},
    {kFloat, 16, DType::float16},
    {kBfloat, 16, DType::bfloat16},
    {kFloat8E4m3fn, 8, DType::float8_e4m3},
    {kFloat8E5m2, 8, DType::float8_e5m2},
    {kInt, 8, DType::int8},
    {kUInt, 8, DType::uint8},
    {kInt, 16, DType::int16},
    {kUInt, 16, DType::uint16},
    {kInt, 32, DType::int32},
    {kUInt, 32, DType::uint32},
    {kInt, 64, DType::int64},
    {kUInt, 64, DType::uint64},
}};

}  // namespace

std::optional<DType> dtype_of(const nanobind::dlpack::dtype& dtype) {
  const auto* const found = std::ranges::find_if(kKnown, [&](const Known& known) {
    return known.code == dtype.code && known.bits == dtype.bits && dtype.lanes == 1;
  });
  return found == kKnown.end() ? std::nullopt : std::optional(found->dtype);
}

}  // namespace lanecast
