// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <array>

namespace lanecast {
namespace {

struct DTypeRow {
  std::string_view name;
  std::uint8_t bytes;
  bool is_float;
};

constexpr std::array<DTypeRow, kDTypes> kDTypeRows{{
    {"float64", 8, true},
    {"float32", 4, true},
    {"float16", 2, true},
    {"bfloat16", 2, true},
    {"float8_e4m3", 1, true},
    {"float8_e5m2", 1, true},
    {"int8", 1, false},
    {"uint8", 1, false},
    {"int16", 2, false},
    {"uint16", 2, false},
    {"int32", 4, false},
    {"uint32", 4, false},
    {"int64", 8, false},
    {"uint64", 8, false},
}};

constexpr std::array<std::string_view, kReduceOps> kOpNames{"sum", "prod", "min", "max", "avg", "band", "bor", "bxor"};

const DTypeRow& row(DType dtype) { return kDTypeRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).bytes; }
bool is_float(DType dtype) { return row(dtype).is_float; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view name_of(ReduceOp op) { return kOpNames[static_cast<std::size_t>(op)]; }

bool supports(ReduceOp op, DType dtype) {
  if (op == ReduceOp::avg) return is_float(dtype);
  if (op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor) return !is_float(dtype);
  return true;
}

std::optional<DType> dtype_from(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i)
    if (kDTypeRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<ReduceOp> op_from(std::string_view name) {
  for (int i = 0; i < kReduceOps; ++i)
    if (kOpNames[i] == name) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

}  // namespace lanecast
