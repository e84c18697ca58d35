// SPDX-License-Identifier: Apache-2.0
// What the two queues of a program's lane share while it runs, and how both count bytes.
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

/// A word for a peer or the proxy, and where it is written.
struct SaidWord {
  u64 at, value;
};
/// Of so many rounds in turn: one is said while the next is at work, and the one behind that is decoded.
constexpr u32 kSaid = 4;

/// One end of a lane's ring to or from a peer.
struct RingEnd {
  u64 memory;  // address of the ring
  u64* hears;  // the word that says how much has been taken, or has come
  u64* says;   // and the peer's, which hears from here
  RingPlace place;
  u32 agreed;  // the chain, and what had moved before this launch: 16 bits, as the peer has them
};

/// What the queues of a lane share.
struct LaneMemory {
  u32 idle, halted;   // a wait has failed, before this launch or in it: nothing is moved or said any more
  u32 epoch;          // number of the launch
  u32 launch, chain;  // 16 bits each, the former of that number
  u32 chunks;         // of this launch
  u32 ended[2];       // rounds of either queue
  // Of sums that are joined to puts, see joined.cuh: the latest whose put has room, and the latest that writes there.
  // The put that has room, and how many puts have been said, by their rounds.
  u32 offered, joined;
  u32 put_offered, puts_said;
  u32 begun[2][2];           // a round of either queue, in turn: has it begun before the one ahead of it has ended?
  SaidWord said[2][kSaid];   // of either queue, in turn
  ProgramRound round[2][2];  // likewise
  // Of either queue, to and from each peer. A launch's arguments are far away when they are read for the first time, so
  // many threads read them at once, when it begins.
  RingEnd ring[2][kMostRanks];
  u64 base[3];              // by Space
  u64 emptied[kMostRanks];  // as in ProgramFlags, when the launch began: most puts find room by it, and ask no more
  u64 program[kProgramBytes / 8];
};

__device__ inline LaneMemory& lane_memory() {
  __shared__ LaneMemory lane;
  return lane;
}

/// Of a ring, which messages take in whole grains.
__device__ inline u32 grains(u32 bytes) { return (bytes + kRingGrain - 1) / kRingGrain; }

/// Bytes in front of a numerator `at` of a slice of so many.
__device__ inline u64 place(const Operand& o, u32 at, u64 slice) {
  if (at == 0) return 0;
  if (at == o.den) return slice;
  const u64 product = (slice + kGranule - 1) / kGranule * at;
  if (o.den_log != 0) return (product >> o.den_log) * kGranule;
  const u64 granules = product >> 32 ? product / o.den : static_cast<u32>(product) / o.den;
  return granules * kGranule;
}

__device__ inline ProgramControl* state_of(const ProgramRun& x) {
  return reinterpret_cast<ProgramControl*>(x.program_control);
}
__device__ inline WaitContext waiter_of(const ProgramRun& x) {
  return {x.rank, x.signature, x.timeout_ns, reinterpret_cast<Control*>(x.control),
          reinterpret_cast<FaultRecord*>(x.fault)};
}

}  // namespace lanecast::gpu
