// SPDX-License-Identifier: Apache-2.0
// The kernels of one variant: an instance of the loop for each supported pair of type and operator.
#pragma once

#include "device/host/reduce_loop.h"
#include "device/host/variant.h"

namespace lanecast::host {
namespace {

// In the order of ReduceOp.
template <class Format>
constexpr std::array<ReduceKernel, kReduceOps> float_kernels() {
  constexpr ReduceKernel sum = reduce_loop<Format, Sum>;
  return {sum, reduce_loop<Format, Prod>, reduce_loop<Format, Min>, reduce_loop<Format, Max>, sum};
}

/// Where signed and unsigned integers give the same bits they share the unsigned kernel, which wraps.
template <class Signed, class Unsigned>
constexpr std::array<ReduceKernel, kReduceOps> integer_kernels() {
  using Wrapping = Plain<Unsigned>;
  return {reduce_loop<Wrapping, Sum>,
          reduce_loop<Wrapping, Prod>,
          reduce_loop<Plain<Signed>, Min>,
          reduce_loop<Plain<Signed>, Max>,
          nullptr,
          reduce_loop<Wrapping, BitAnd>,
          reduce_loop<Wrapping, BitOr>,
          reduce_loop<Wrapping, BitXor>};
}

// In the order of DType.
constexpr Variant make_variant(std::string_view name) {
  using std::int16_t, std::int32_t, std::int64_t, std::int8_t;
  using std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
  return {name,
          {float_kernels<Plain<double>>(), float_kernels<Plain<float>>(), float_kernels<Float16>(),
           float_kernels<BFloat16>(), float_kernels<Float8E4M3>(), float_kernels<Float8E5M2>(),
           integer_kernels<int8_t, uint8_t>(), integer_kernels<uint8_t, uint8_t>(),
           integer_kernels<int16_t, uint16_t>(), integer_kernels<uint16_t, uint16_t>(),
           integer_kernels<int32_t, uint32_t>(), integer_kernels<uint32_t, uint32_t>(),
           integer_kernels<int64_t, uint64_t>(), integer_kernels<uint64_t, uint64_t>()}};
}

}  // namespace
}  // namespace lanecast::host
