// SPDX-License-Identifier: Apache-2.0
#include "types.h"

#include <optional>

namespace lanecast_torch {
namespace {

std::optional<lanecastDataType_t> known(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return lanecastFloat64;
    case at::kFloat:
      return lanecastFloat32;
    case at::kHalf:
      return lanecastFloat16;
    case at::kBFloat16:
      return lanecastBfloat16;
    case at::kFloat8_e4m3fn:
      return lanecastFloat8e4m3;
    case at::kFloat8_e5m2:
      return lanecastFloat8e5m2;
    case at::kChar:
      return lanecastInt8;
    case at::kByte:
    case at::kBool:
      return lanecastUint8;
    case at::kShort:
      return lanecastInt16;
    case at::kUInt16:
      return lanecastUint16;
    case at::kInt:
      return lanecastInt32;
    case at::kUInt32:
      return lanecastUint32;
    case at::kLong:
      return lanecastInt64;
    case at::kUInt64:
      return lanecastUint64;
    default:
      return std::nullopt;
  }
}

std::optional<lanecastRedOp_t> operator_for(c10d::ReduceOp::RedOpType op, bool logical) {
  using Op = c10d::ReduceOp;
  switch (op) {
    case Op::SUM:
    case Op::PREMUL_SUM:
      return logical ? lanecastMax : lanecastSum;
    case Op::PRODUCT:
      return logical ? lanecastMin : lanecastProd;
    case Op::MIN:
      return lanecastMin;
    case Op::MAX:
      return lanecastMax;
    case Op::AVG:
      return logical ? std::nullopt : std::optional(lanecastAvg);
    case Op::BAND:
      return lanecastBand;
    case Op::BOR:
      return lanecastBor;
    case Op::BXOR:
      return lanecastBxor;
    default:
      return std::nullopt;
  }
}

const char* name_of(c10d::ReduceOp::RedOpType op) {
  using Op = c10d::ReduceOp;
  switch (op) {
    case Op::SUM:
      return "SUM";
    case Op::AVG:
      return "AVG";
    case Op::PRODUCT:
      return "PRODUCT";
    case Op::MIN:
      return "MIN";
    case Op::MAX:
      return "MAX";
    case Op::BAND:
      return "BAND";
    case Op::BOR:
      return "BOR";
    case Op::BXOR:
      return "BXOR";
    case Op::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "an operator that Lanecast does not know";
  }
}

/// The integers that torch divides; the wider unsigned ones it does not.
bool divisible(at::ScalarType type) {
  return type == at::kByte || type == at::kChar || type == at::kShort || type == at::kInt || type == at::kLong;
}

at::Tensor scaled(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor && tensor.is_floating_point(), "lanecast: PREMUL_SUM scales floating-point numbers by a ",
                    "factor that it carries, not ", tensor.scalar_type());
  const at::NoGradGuard no_grad;
  return factor->tensor_factor.defined() ? tensor.mul(factor->tensor_factor.to(tensor.device(), tensor.scalar_type()))
                                         : tensor.mul(factor->double_factor);
}

}  // namespace

Elements moved(const at::Tensor& tensor, std::size_t count) {
  if (const auto dtype = known(tensor.scalar_type())) return {*dtype, count};
  return {lanecastUint8, count * tensor.element_size()};
}

Elements moved(const at::Tensor& tensor) { return moved(tensor, static_cast<std::size_t>(tensor.numel())); }

Reduction reduction(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const bool averages_integers = op.op_ == c10d::ReduceOp::AVG && divisible(tensor.scalar_type());
  const bool linear = op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG;
  const at::Tensor numbers = tensor.is_complex() && linear ? at::view_as_real(tensor) : tensor;
  const auto dtype = known(numbers.scalar_type());
  const auto how =
      averages_integers ? std::optional(lanecastSum) : operator_for(op.op_, numbers.scalar_type() == at::kBool);
  TORCH_CHECK_VALUE(dtype && how, "lanecast: ", call, ": tensors of type ", tensor.scalar_type(),
                    " cannot be reduced by ", name_of(op.op_), "; see Tensor.to() for another type");
  const bool bitwise = *how == lanecastBand || *how == lanecastBor || *how == lanecastBxor;
  TORCH_CHECK_VALUE(!bitwise || !numbers.is_floating_point(), "lanecast: ", call,
                    ": bitwise operators (BAND, BOR, BXOR) need integers, not ", tensor.scalar_type());
  const at::Tensor from = op.op_ == c10d::ReduceOp::PREMUL_SUM ? scaled(numbers, op) : numbers;
  return {numbers, from, *dtype, *how, tensor.is_complex() && linear ? 2u : 1u, averages_integers};
}

}  // namespace lanecast_torch
