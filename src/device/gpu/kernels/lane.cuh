// SPDX-License-Identifier: Apache-2.0
// A lane of a program: what its two queues share while it runs, what stays from launch to launch, and how both count
// bytes.
#pragma once

#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/program_arguments.h"
#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

/// What the threads of a queue have to do in a round.
struct ProgramRound {
  Operation operation;
  u32 runs;
  ReductionArguments run[kRunsAtOnce + 1];  // one more, since a run may be cut at the end of a ring
};

/// What the queues of a lane share.
struct LaneMemory {
  u32 idle, halted;           // a wait has failed, before this launch or in it: nothing is moved or said any more
  u32 epoch;                  // number of the launch
  u32 launch, chain;          // 16 bits each, the former of that number
  u32 ended[2];               // rounds of either queue
  u32 begun[2][2];            // a round of either queue, in turn: has it begun before the one ahead of it has ended?
  ProgramRound round[2][2];   // of either queue, in turn
  u64 moved[2][kMostRanks];   // as in ProgramControl
  u32 agreed[2][kMostRanks];  // the chain, and what had moved before this launch: 16 bits, as the peer has them
  u64 program[kProgramBytes / 8];
};

__device__ inline LaneMemory& lane_memory() {
  __shared__ LaneMemory lane;
  return lane;
}

/// Of a ring, which messages take in whole grains.
__device__ inline u64 grains(u64 bytes) { return (bytes + kRingGrain - 1) / kRingGrain; }

/// Bytes in front of a numerator `at` of a slice of so many.
__device__ inline u64 place(const Operand& o, u32 at, u64 slice) {
  if (at == 0) return 0;
  if (at == o.den) return slice;
  const u64 product = (slice + kGranule - 1) / kGranule * at;
  const u64 granules = product >> 32 ? product / o.den : static_cast<u32>(product) / o.den;
  return granules * kGranule;
}

/// By all threads of a block: what it needs of the rank's state and of the program.
__device__ inline void begin_lane(const ProgramRun& x, u64 program_bytes) {
  LaneMemory& lane = lane_memory();
  Control* const control = reinterpret_cast<Control*>(x.control);
  ProgramControl* const state = reinterpret_cast<ProgramControl*>(x.program_control);
  const auto mixed = [](u32 value) { return value * 0x9e3779b1u >> 16; };
  const u32 chain = mixed((state->chain ^ x.signature) + 1);
  if (threadIdx.x == 0) {
    lane.idle = peek(&control->failed);
    lane.halted = 0;
    lane.epoch = state->launches + 1;
    lane.launch = lane.epoch & 0xffff;
    lane.chain = chain;
    lane.ended[0] = lane.ended[1] = 0;
  }
  if (threadIdx.x < x.ranks) {
    lane.moved[0][threadIdx.x] = state->put[threadIdx.x][blockIdx.x];
    lane.moved[1][threadIdx.x] = state->taken[threadIdx.x][blockIdx.x];
    for (u32 queue = 0; queue < 2; ++queue)
      lane.agreed[queue][threadIdx.x] = chain ^ mixed(static_cast<u32>(grains(lane.moved[queue][threadIdx.x])));
  }
  if (program_bytes <= kProgramBytes)
    for (u32 k = threadIdx.x; k < program_bytes / 8; k += blockDim.x)
      lane.program[k] = reinterpret_cast<const u64*>(x.program)[k];
  prepare_barriers();
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 0 && x.begun != 0)
    release(reinterpret_cast<u64*>(x.begun), u64{lane.epoch} << 32);
  if (threadIdx.x == 0 && comes_last(control)) {
    state->launches = lane.epoch;
    state->chain = lane.chain;
  }
}

/// By all of them, when both queues have come to their ends.
__device__ inline void end_lane(const ProgramRun& x) {
  const LaneMemory& lane = lane_memory();
  if (threadIdx.x == 0 && x.ended != 0 && goes_on(lane.halted))
    release(reinterpret_cast<u64*>(x.ended) + blockIdx.x, u64{lane.epoch} << 32);
  ProgramControl* const state = reinterpret_cast<ProgramControl*>(x.program_control);
  if (threadIdx.x < x.ranks) {
    state->put[threadIdx.x][blockIdx.x] = lane.moved[0][threadIdx.x];
    state->taken[threadIdx.x][blockIdx.x] = lane.moved[1][threadIdx.x];
  }
}

}  // namespace lanecast::gpu
