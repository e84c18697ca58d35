// SPDX-License-Identifier: Apache-2.0
// A lane of a program begins and ends: what stays from launch to launch, and what is wrong where launches overlap.
#pragma once

#include "device/gpu/kernels/counts.cuh"

namespace lanecast::gpu {

/// Two launches are at work at once, of which neither will come to its end. other_is_known: it is the latest of which
/// all blocks have begun.
__device__ inline void report_overlap(const ProgramRun& x, bool other_is_known) {
  const ProgramControl* const state = state_of(x);
  FaultRecord at{};
  at.peer = x.rank;
  at.place = static_cast<u32>(WaitKind::program);
  at.call = x.captured;
  at.found = other_is_known ? peek(&state->signature) : 0;
  at.round = other_is_known ? peek(&state->captured) : 0;
  report(waiter_of(x), at, Fault::overlap);
  halt(lane_memory().halted);
}

/// By one thread of each block: true on the last one of this launch.
__device__ inline bool enters_last(const ProgramRun& x) {
  constexpr int kCount = 48;
  constexpr u64 kSum = (u64{1} << kCount) - 1;
  ProgramControl* const state = state_of(x);
  const u64 mine = u64{x.captured} << 16 | x.signature;
  const u64 entering = atomicAdd(&state->entering, u64{1} << kCount | mine) + mine + (u64{1} << kCount);
  const u64 blocks = entering >> kCount;
  if (blocks < gridDim.x) return false;
  // Of a launch alone all take it for the same, and there are no more of them.
  if (blocks > gridDim.x || (entering & kSum) != gridDim.x * mine) report_overlap(x, /*other_is_known=*/false);
  state->entering = 0;
  return true;
}

/// By one thread of the launch: says to the proxy that it has begun. Waits where that has not read what stands in the
/// place; looks at every so many launches only, since the word lies in the host's memory.
__device__ inline void announce(const ProgramRun& x) {
  LaneMemory& lane = lane_memory();
  if (lane.epoch % (kAnnounced / 2) == 0) {
    const auto has_room = [&](u64 read) {
      return static_cast<int>(static_cast<u32>(read) + kAnnounced / 2 - lane.epoch) >= 0;
    };
    FaultRecord at{};
    at.peer = x.rank;
    at.place = static_cast<u32>(WaitKind::program);
    if (!wait_for(waiter_of(x), reinterpret_cast<const u64*>(x.read), at, has_room)) return halt(lane.halted);
  }
  release(reinterpret_cast<u64*>(x.begun) + lane.epoch % kAnnounced, u64{lane.epoch} << 32 | x.captured);
}

/// By one thread of each block, once all have read the rank's state: the launch is at work here.
__device__ inline void enter(const ProgramRun& x) {
  const LaneMemory& lane = lane_memory();
  ProgramControl* const state = state_of(x);
  if (lane.idle == kEnded) return fail_launch();  // a graph outlives its communicator, and nobody else can say so
  if (lane.idle == 0) {
    const bool other_has_begun = state->entered[blockIdx.x] != lane.epoch;
    const bool overlaps = atomicCAS(&state->inside[blockIdx.x], 0u, 1u) != 0 || !other_has_begun;
    state->entered[blockIdx.x] = lane.epoch;
    if (overlaps)
      report_overlap(x, other_has_begun);
    else if (blockIdx.x == 0 && x.begun != 0)
      announce(x);
  }
  if (!enters_last(x)) return;
  state->launches = lane.epoch;
  state->chain = lane.chain;
  state->signature = x.signature;
  state->captured = x.captured;
}

/// By all threads of a block: what it needs of the rank's state and of the program.
__device__ inline void begin_lane(const ProgramRun& x) {
  LaneMemory& lane = lane_memory();
  ProgramControl* const state = state_of(x);
  const auto mixed = [](u32 value) { return value * 0x9e3779b1u >> 16; };
  // All is asked for before any of it is used: each is half a microsecond away, and one store in between would make
  // the next one wait.
  const u64* const image = reinterpret_cast<const u64*>(x.program);
  const u64 image_bytes = program_bytes(x);
  const u32 words = image_bytes <= kProgramBytes ? static_cast<u32>(image_bytes / 8) : 0;
  const u64 first_word = threadIdx.x < words ? image[threadIdx.x] : 0;
  const u32 peer = threadIdx.x;
  RingPlace places[2]{};
  u64 emptied = 0;
  ProgramFlags* const own = reinterpret_cast<ProgramFlags*>(x.flags[x.rank]);
  if (peer < x.ranks) {
    places[0] = state->put[peer][blockIdx.x];
    places[1] = state->taken[peer][blockIdx.x];
    emptied = peek(&own->emptied[peer][blockIdx.x]);
  }
  u32 failed = 0, launches = 0;
  if (threadIdx.x == 0) {
    failed = peek(&reinterpret_cast<Control*>(x.control)->failed);
    launches = peek(&state->launches);
  }
  const u32 chain = mixed((state->chain ^ x.signature) + 1);
  if (threadIdx.x == 0) {
    lane.idle = failed;
    lane.halted = 0;
    lane.epoch = launches + 1;
    lane.launch = lane.epoch & 0xffff;
    lane.chain = chain;
    lane.chunks = x.counts.by_pairs ? 0 : x.chunks;
    lane.ended[0] = lane.ended[1] = 0;
    lane.offered = lane.joined = lane.puts_said = 0;
  }
  if (peer < x.ranks) {
    ProgramFlags* const theirs = reinterpret_cast<ProgramFlags*>(x.flags[peer]);
    u64* const hears[2]{&own->emptied[peer][blockIdx.x], &own->arrived[peer][blockIdx.x]};
    u64* const says[2]{&theirs->arrived[x.rank][blockIdx.x], &theirs->emptied[x.rank][blockIdx.x]};
    const u64 rings[2]{x.ring_to[peer], x.ring_from[peer]};
    for (u32 queue = 0; queue < 2; ++queue)
      lane.ring[queue][peer] = {rings[queue] + blockIdx.x * x.ring_bytes, hears[queue], says[queue], places[queue],
                                chain ^ mixed(places[queue].grains)};
    lane.emptied[peer] = emptied;
  }
  if (threadIdx.x < 3) lane.base[threadIdx.x] = x.base[threadIdx.x];
  if (threadIdx.x < words) lane.program[threadIdx.x] = first_word;
  for (u32 k = threadIdx.x + blockDim.x; k < words; k += blockDim.x) lane.program[k] = image[k];
  prepare_barriers();
  __syncthreads();
  // By a thread that has nothing to do before a take has ended: nothing waits for what it says here. The proxy goes to
  // work while the table is filled, unless that tells it the counts.
  const bool enters = threadIdx.x + kWarp == blockDim.x, tells_counts = x.counts.told != 0;
  if (enters && !tells_counts) enter(x);
  if (x.counts.rows != 0 && lane.idle == 0) fill_table(x);
  if (enters && tells_counts) enter(x);
}

/// By all of them, when both queues have come to their ends.
__device__ inline void end_lane(const ProgramRun& x) {
  const LaneMemory& lane = lane_memory();
  ProgramControl* const state = state_of(x);
  if (threadIdx.x == 0 && x.ended != 0 && goes_on(lane.halted))  // counts in the host's memory may be written over
    let_go(reinterpret_cast<u64*>(x.ended) + blockIdx.x, u64{lane.epoch} << 32);
  if (threadIdx.x < x.ranks) {
    state->put[threadIdx.x][blockIdx.x] = lane.ring[0][threadIdx.x].place;
    state->taken[threadIdx.x][blockIdx.x] = lane.ring[1][threadIdx.x].place;
  }
  if (threadIdx.x == 0) state->inside[blockIdx.x] = 0;
}

}  // namespace lanecast::gpu
