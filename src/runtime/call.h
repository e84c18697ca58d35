// SPDX-License-Identifier: Apache-2.0
// One collective call as the caller describes it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "plan/collective.h"

namespace lanecast {

/// Counts are in elements: `count` of each part (all-gather: what a rank brings; reduce-scatter: what a rank keeps;
/// all-reduce: all), or `counts`, one per rank, where they differ.
struct Call {
  Kind kind{};
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  std::span<const std::size_t> counts;
  DType dtype{};
  ReduceOp op = ReduceOp::sum;
  std::string_view algorithm;  // empty: the communicator's, or chosen
  int chunks = 0;              // 0: the communicator's, or chosen
};

/// Elements of a part.
inline std::size_t count_of(const Call& call, int part) { return call.counts.empty() ? call.count : call.counts[part]; }

/// Bytes of the full buffer: an all-gather's output, a reduce-scatter's input, an all-reduce's vector.
std::size_t full_bytes(const Call& call, int size);

/// Throws UsageError, naming the argument and the rank, for everything that one rank can see by itself. Returns whether
/// the call is in-place as NCCL defines it: the input lies where the output holds the same part.
bool check(const Call& call, int rank, int size);

}  // namespace lanecast
