// SPDX-License-Identifier: Apache-2.0
// How a part of a block that has a copy engine work goes through its rounds together with those who signal for it.
#pragma once

#include "device/gpu/kernels/bulk.cuh"

#ifdef LANECAST_BULK

namespace lanecast::gpu {

/// What a part that has a copy engine work and its two signalling warps tell each other, by marks: a round may begin,
/// it is written, and the warp that tells the peers has seen that, so that another round may take over its marks.
struct Rounds {
  u64 begun[kSlots], written[kSlots], seen[kSlots];

  __device__ void prepare() {
#pragma unroll 1
    for (int k = 0; k < kSlots; ++k) {
      prepare_mark(&begun[k], 1);
      prepare_mark(&written[k], 1);
      prepare_mark(&seen[k], 1);
    }
  }

  // By the warp that waits for the peers; by the part's thread; by the warp that tells them.

  __device__ void begin(u32 round) {
    if (round >= kSlots) await(seen, round - kSlots);
    come_to_as_warp(&begun[round % kSlots]);
  }

  __device__ bool has_begun(u32 round) { return has_passed(&begun[round % kSlots], round / kSlots % 2); }
  __device__ void await_begin(u32 round) { await(begun, round); }
  __device__ void end(u32 round) { come_to(&written[round % kSlots]); }

  __device__ void await_end(u32 round) {
    await(written, round);
    come_to_as_warp(&seen[round % kSlots]);
  }

 private:
  __device__ static void await(u64* marks, u32 round) { await_mark(&marks[round % kSlots], round / kSlots % 2); }
};

}  // namespace lanecast::gpu

#endif
