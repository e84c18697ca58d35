// SPDX-License-Identifier: Apache-2.0
// A broadcast among ranks that see each other's memory, in two shots: an all-reduce with one rank's pieces in place of
// all ranks' sums. The root, which has no share, sends each of the others a share, and they spread it among themselves.
// All words are said as if all sent and fetched, so that what holds of slots there holds here.
#pragma once

#include "device/gpu/kernels/two_shot.cuh"

namespace lanecast::gpu {

class BlockBroadcast : public ThreadsTwoShot {
 public:
  using ThreadsTwoShot::ThreadsTwoShot;

  /// This rank's share, from its slot to the output and to the others' slots; the root's vector to its output. By the
  /// threads that would reduce.
  __device__ void spread() {
    const Team team{threadIdx.x - kTwoShotSenders, kTwoShotReducers};
    move(kReducing, rounds(), [&](u32 round) {
      if (x_.rank == x_.root) return keep(team, round);
      const u64 bytes = slice(x_.recv_bytes[x_.rank], round);
      if (bytes == 0) return;
      u64 to[kMostRanks];
      int n = 0;
      to[n++] = x_.target[x_.rank] + offset(round);
#pragma unroll 1
      for (u32 k = 1; k < x_.ranks; ++k) {
        const u32 q = peer(k);
        if (q != x_.root) to[n++] = slot(q, x_.rank, round, kResults);
      }
      multicast_bytes(team, to, n, slot(x_.rank, x_.root, round), bytes);
    });
  }

  __device__ void fetch() { fetch_if(x_.rank != x_.root); }

 private:
  __device__ void keep(Team team, u32 round) const {
    each_piece(x_.recv_bytes, round, [&](u32 q, u64 bytes) {
      const u64 to = x_.target[q] + offset(round), from = x_.source[q] + offset(round);
      if (to != from) copy_bytes(team, to, from, bytes);
    });
  }
};

}  // namespace lanecast::gpu
