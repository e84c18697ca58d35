// SPDX-License-Identifier: Apache-2.0
// The loop that all reduction kernels share.
//
// A group of vectors takes in every source before it is stored: dst is written once, whatever the number of sources,
// and partial results of narrow floats never leave their fp32 registers.
#pragma once

#include "device/host/formats.h"
#include "device/host/operators.h"

namespace lanecast::host {
namespace {

constexpr int kGroup = 4;  // vectors: enough to hide the latency of the arithmetic

/// Floats only: divides, and gives every NaN the same bits, which else would hang on the order in which the compiler
/// hands an addition its operands.
template <class T, class V>
V finish(V value, double divisor) {
  if constexpr (static_cast<T>(0.5) != 0) {
    if (divisor != 1.0) value /= V{} + static_cast<T>(divisor);
    value = value == value ? value : V{} + static_cast<T>(__builtin_nan(""));
  }
  return value;
}

/// `group_of(s)` points at this group's elements in source s.
template <class Format, class Op, class GroupOf>
void reduce_group(std::byte* dst, GroupOf group_of, std::size_t source_count, double divisor) {
  using Value = typename Format::Value;
  const std::byte* source = group_of(0);
  Value values[kGroup];
  for (int k = 0; k < kGroup; ++k) values[k] = Format::load(source + k * Format::kBytes);
  for (std::size_t s = 1; s < source_count; ++s) {
    source = group_of(s);
    for (int k = 0; k < kGroup; ++k) values[k] = Op::combine(values[k], Format::load(source + k * Format::kBytes));
  }
  for (int k = 0; k < kGroup; ++k)
    Format::store(dst + k * Format::kBytes, finish<typename Format::Element>(values[k], divisor));
}

template <class Format, class Op>
void reduce_loop(void* dst, const void* const* sources, std::size_t source_count, std::size_t count, double divisor) {
  constexpr std::size_t kGroupBytes = std::size_t{kGroup} * Format::kBytes;
  auto* const out = static_cast<std::byte*>(dst);
  const std::size_t bytes = count * (Format::kBytes / Format::kLanes);
  std::size_t offset = 0;
  for (; offset + kGroupBytes <= bytes; offset += kGroupBytes) {
    const auto in_place = [=](std::size_t s) { return static_cast<const std::byte*>(sources[s]) + offset; };
    reduce_group<Format, Op>(out + offset, in_place, source_count, divisor);
  }
  if (offset == bytes) return;
  // The rest goes through a buffer as long as a group, so that every element takes the same instructions.
  std::byte staging[kGroupBytes] = {};
  const auto staged = [&](std::size_t s) -> const std::byte* {
    __builtin_memcpy(staging, static_cast<const std::byte*>(sources[s]) + offset, bytes - offset);
    return staging;
  };
  reduce_group<Format, Op>(staging, staged, source_count, divisor);
  __builtin_memcpy(out + offset, staging, bytes - offset);
}

}  // namespace
}  // namespace lanecast::host
