// SPDX-License-Identifier: Apache-2.0
// Sums of what ranks have brought to shared memory.
#pragma once

#include "device/gpu/kernels/memory.cuh"

namespace lanecast::gpu {

/// Sums of so many bytes of tiles that follow each other, in place of the first: in the order of the ranks, so that all
/// get the same bits.
template <class Format>
__device__ inline void add_tiles(Team team, u8* tiles, u32 tile_bytes, u32 ranks, u32 bytes, const Averaging& how) {
  constexpr int n = Elements<Format>::kCount;
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const u32 vectors = bytes / 16;
  const u64 first = reinterpret_cast<u64>(tiles);
  const Sources sources{nullptr, first, tile_bytes, ranks}, result{nullptr, first, 0, 1};
#pragma unroll 1
  for (u32 i = team.index; i < vectors; i += kUnroll * team.size) {
    const u32 left = within<kUnroll>(vectors - i, team.size);
    Value sums[kUnroll][n];
    combine_sources<Format, kUnroll, /*kAtOnce=*/1>(kSum, sums, ranks, left, team.size, [&](u32 q) {
      return reinterpret_cast<const Vector*>(tiles + q * tile_bytes) + i;
    });
    Vector results[kUnroll];
    bool leaves = false;
    for (int k = 0; k < kUnroll; ++k) {
      results[k] = finish<Format>(sums[k], how.divisor);
      leaves |= k * team.size < left && leaves_range<Format>(sums[k], how.overrange);
    }
    if (leaves) {
      average_vectors<Format>(sources, result, i, team.size, (left + team.size - 1) / team.size, how);
      continue;
    }
    for (int k = 0; k < kUnroll; ++k)
      if (k * team.size < left) reinterpret_cast<Vector*>(tiles)[i + k * team.size] = results[k];
  }
  for (u32 k = vectors * n + team.index; k < bytes / sizeof(Stored); k += team.size) {
    Value sum = Format::widen(reinterpret_cast<const Stored*>(tiles)[k]);
#pragma unroll 1
    for (u32 q = 1; q < ranks; ++q)
      sum = combine<Format>(kSum, sum, Format::widen(reinterpret_cast<const Stored*>(tiles + q * tile_bytes)[k]));
    if (leaves_range<Format>(sum, how))
      average_element<Format>(sources, result, k, how);
    else
      reinterpret_cast<Stored*>(tiles)[k] = finish<Format>(sum, how.divisor);
  }
}

}  // namespace lanecast::gpu
