// SPDX-License-Identifier: Apache-2.0
// Sums of what ranks have brought to shared memory.
#pragma once

#include "device/gpu/kernels/memory.cuh"

namespace lanecast::gpu {

/// Sums of so many bytes of tiles that follow each other, in place of the first: in the order of the ranks, so that all
/// get the same bits.
template <class Format>
__device__ inline void add_tiles(Team team, u8* tiles, u32 tile_bytes, u32 ranks, u32 bytes, double divisor) {
  constexpr int n = Elements<Format>::kCount;
  using Stored = typename Format::Stored;
  using Value = typename Format::Value;
  const u32 vectors = bytes / 16;
#pragma unroll 1
  for (u32 i = team.index; i < vectors; i += kUnroll * team.size) {
    const u32 left = within<kUnroll>(vectors - i, team.size);
    Value sums[kUnroll][n];
    add_up<Format, kUnroll, /*kAtOnce=*/1>(sums, ranks, left, team.size, [&](u32 q) {
      return reinterpret_cast<const Vector*>(tiles + q * tile_bytes) + i;
    });
    for (int k = 0; k < kUnroll; ++k) {
      if (k * team.size < left) reinterpret_cast<Vector*>(tiles)[i + k * team.size] = finish<Format>(sums[k], divisor);
    }
  }
  for (u32 k = vectors * n + team.index; k < bytes / sizeof(Stored); k += team.size) {
    Value sum = Format::widen(reinterpret_cast<const Stored*>(tiles)[k]);
#pragma unroll 1
    for (u32 q = 1; q < ranks; ++q)
      sum = combine<Format>(kSum, sum, Format::widen(reinterpret_cast<const Stored*>(tiles + q * tile_bytes)[k]));
    reinterpret_cast<Stored*>(tiles)[k] = finish<Format>(sum, divisor);
  }
}

}  // namespace lanecast::gpu
