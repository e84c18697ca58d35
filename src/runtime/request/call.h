// SPDX-License-Identifier: Apache-2.0
// One collective call as the caller describes it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "plan/collective.h"
#include "plan/fraction.h"

namespace lanecast {

/// Counts that lie in the GPU's memory, where the host does not see them: 64 bits each, one for each rank, in rows.
struct CountsOnDevice {
  const void* sends = nullptr;
  const void* receives = nullptr;
  std::size_t ranks = 0;
  std::size_t bound = 0;                  // rows of each, at most
  std::size_t row = 1;                    // elements of one
  std::size_t in_rows = 0, out_rows = 0;  // of the buffers
};

/// Counts are in elements: `count` of each part (all-gather and gather: what a rank brings; reduce-scatter and scatter:
/// what a rank keeps; all-to-all: what one rank sends another; all-reduce, broadcast and reduce: all), or `counts`, one
/// per rank and equal on every rank, where they differ. A gather, scatter or all-to-all may instead tell each rank its
/// own counts only: `send_counts`, one for each part that it brings, and `recv_counts`, one for each that it ends with
/// (on a gather's root: one per rank; on the others none). Then no rank can forward what is not its own.
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
  int root = 0;                // of broadcast, reduce, gather and scatter
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> recv_counts;
  std::optional<bool> reproducible;  // none: the communicator's
  bool is_barrier = false;           // an all-gather that the caller knows by this name
  Chunk slice{};  // of each part, that these ranks move; others move the rest, in memory that both see
  std::optional<CountsOnDevice> counts_on_device =
      std::nullopt;  // instead of send_counts and recv_counts, of an all-to-all

  bool own_counts() const { return !send_counts.empty() || !recv_counts.empty() || counts_on_device.has_value(); }
};

/// A chunk takes its steps' time also where it gets no element, and nothing looks at deadlines between empty ones.
inline constexpr int kMostChunks = 1 << 16;
inline constexpr int kMostSlices = 1 << 10;  // so that all chunks of all slices have numbers of 32 bits

/// Bytes of the full buffer: an all-gather's output, a reduce-scatter's input, an all-reduce's vector, what one rank
/// brings to an all-to-all. 0 where each rank knows its own counts only.
std::size_t full_bytes(const Call& call, int size);

/// What the call is to compute; only plans of one and the same collective fit together.
Collective collective_of(const Call& call, int size, bool in_place);

/// Throws UsageError, naming the argument and the rank, for everything that one rank can see by itself. Returns whether
/// the call is in-place as NCCL defines it: the input lies where the output holds the same part.
bool check(const Call& call, int rank, int size);

}  // namespace lanecast
