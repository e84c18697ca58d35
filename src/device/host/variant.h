// SPDX-License-Identifier: Apache-2.0
// The kernels are compiled once per instruction set from one source; a variant is one such build. All give the same
// bits.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "device/host/kernels.h"

namespace lanecast::host {

using ReduceKernel = void (*)(void* dst, const void* const* sources, std::size_t source_count, std::size_t count,
                              const Finish& finish);

struct Variant {
  std::string_view name;
  std::array<std::array<ReduceKernel, kReduceOps>, kDTypes> reduce;  // nullptr where the pair is not supported
};

extern const Variant kBaseline;
#if defined(__x86_64__)
extern const Variant kAvx2;
extern const Variant kAvx512;
#endif

/// The variants that this CPU can run, fastest first.
std::span<const Variant* const> usable_variants();

/// The arguments of host::reduce.
struct ReduceArguments {
  DType dtype;
  ReduceOp op;
  void* dst;
  std::span<const void* const> sources;
  std::size_t count;
  Finish finish = {};
};

void reduce_with(const Variant& variant, const ReduceArguments& reduction);

}  // namespace lanecast::host
