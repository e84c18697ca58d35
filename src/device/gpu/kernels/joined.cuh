// SPDX-License-Identifier: Apache-2.0
// A put and the sum that it puts may be joined. If the put's ring has room by the time that the sum begins, the sum's
// threads write into it as well, and their queue tells the peer. The put then has nothing to move and nothing to say,
// but still ends behind the sum. If there is no room yet, nobody waits for it, and either does its own part.
//
// A word for a peer says that all is there up to some place, so words have to come in the order of what they say: that
// of a joined put behind those of earlier puts, which another warp says, and before those of later ones.
// Source: docs/explanation/decisions/0105-sums-that-are-put-at-once.md.
#pragma once

#include "device/gpu/kernels/lane_memory.cuh"

namespace lanecast::gpu {

// A sum is named by its round in the queue that takes, counted from 1. So no two of a launch have one name, and 0 is
// none.

/// By the queue that puts, before it waits for the sum: the ring has room for its k-th round.
__device__ inline void offer_room(u32 sum, u32 k) {
  lane_memory().put_offered = k;
  tell(&lane_memory().offered, sum);
}

/// By the queue that takes, before the threads begin with the sum. Until that has ended the put keeps its round.
__device__ inline void write_into_ring(u32 sum) {
  LaneMemory& lane = lane_memory();
  if (told(&lane.offered) != sum) return;
  ProgramRound& takes = lane.round[1][(sum - 1) % 2];
  const ProgramRound& puts = lane.round[0][lane.put_offered % 2];
  // A ring's end may cut either where it does not cut the other. The put is as quick with what is not aligned.
  if (takes.runs != puts.runs) return;
#pragma unroll 1
  for (u32 q = 0; q < takes.runs; ++q) {
    const u64 to = puts.run[q].target[0];
    if (takes.run[q].bytes != puts.run[q].bytes || to % sizeof(Vector) != 0) return;
    takes.run[q].target[1] = to;
  }
#pragma unroll 1
  for (u32 q = 0; q < takes.runs; ++q) takes.run[q].targets = 2;
  tell(&lane.joined, sum);
}

/// By the queue that puts, when the sum has ended: nothing is left to do where the sum's threads have done it.
__device__ inline void skip_if_written(u32 sum, u32 k) {
  LaneMemory& lane = lane_memory();
  if (look(&lane.joined) != sum) return;
  lane.round[0][k % 2].runs = 0;
  lane.said[0][k % kSaid].at = 0;
}

/// What the queue that takes says in the place of the put, once the sum's threads are done; nothing where they have not
/// written into the ring. Waits until earlier puts are said: they are under way, and wait for nobody.
__device__ inline SaidWord word_of_put(u32 sum) {
  LaneMemory& lane = lane_memory();
  if (look(&lane.joined) != sum) return {};
  while (told(&lane.puts_said) < lane.put_offered) {
  }
  return lane.said[0][lane.put_offered % kSaid];
}

}  // namespace lanecast::gpu
