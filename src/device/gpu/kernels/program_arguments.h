// SPDX-License-Identifier: Apache-2.0
// The instruction set of programs: what a rank's plan becomes for its GPU, and what the kernel that interprets it
// takes.
//
// A kernel has lanes, which are its blocks. Lane b of a rank talks to the lanes b of its peers only, and runs the whole
// program on its own slice of every part: the k-th of chunks · lanes slices, for k = chunk · lanes + b. Each lane works
// off two queues side by side, each in order: one puts messages to peers, one takes what has come, copies and reduces.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kMostLanes = 64;
constexpr u64 kGranule = 16;          // bytes: slices and pieces of them begin at multiples of it within their part
constexpr u64 kRingGrain = 128;       // bytes: messages begin at multiples of it within their ring
constexpr u32 kRunsAtOnce = 8;        // that an instruction has, at most; a longer list becomes several instructions
constexpr u32 kProgramBytes = 16384;  // of a program that a block keeps in shared memory; a longer one stays in global
// Threads of a block that put, and those that take, copy and reduce; beside either a warp that waits and signals. Of
// 768, between two H200s 256 and 512 were faster than 384 and 384, and much faster than 512 and 256: what is put is
// read once, what is taken is read and written, and reduced besides.
constexpr int kPutters = 256;
constexpr int kTakers = 512;

enum class Operation : u8 {
  put,          // into the ring that the peer keeps for this lane
  take,         // out of the ring that this lane keeps for the peer
  take_reduce,  // likewise; the target becomes the source and what has come
  copy,
  reduce,  // of several sources
};

/// Where the bytes of an operand lie, beside the base that a launch passes.
enum class Space : u32 { in, out, scratch };

/// A run of bytes: of a part, what lies between two places of the lane's slice of it.
struct Operand {
  u64 base;    // bytes in front of the part in its buffer; in scratch: in front of the slot
  u64 bytes;   // of the part
  u64 stride;  // bytes of a slice; the last one may be shorter
  Space space;
  u32 from, to, den;  // places of a slice as from/den and to/den of it
  u32 slot_from;      // in scratch: the place at which the slot begins
  u32 unused;
};

struct Instruction {
  Operation operation;
  u8 ends;            // put, take: the last instruction of its message
  u8 op;              // ReduceOp, of what reduces
  u8 writes_scratch;  // so a slot is used again, which the other queue may still read
  u16 peer;
  u16 sources;   // of each run, of what reduces
  u32 runs;      // each has its target first, where that is no ring, then its sources, where those are none
  u32 operands;  // place of the first run's first
  u32 delay;     // at tick t it works on chunk t - delay
  // Of the other queue, what has to have ended: so many instructions of the tick that is so many before this one's.
  u32 needs, needs_back;
  u32 step;       // of the plan, for people
  u32 overrange;  // as in Reduction
  u32 unused;
  double divisor;  // as in Reduction
};

/// A rank's state, of each peer and lane: bytes that have gone through the rings, counted on from launch to launch.
struct ProgramControl {
  u32 launches;  // so far, as peers compare them
  u32 chain;     // 16 bits, equal on ranks that have run programs of the same plans in the same order
  u64 put[kMostRanks][kMostLanes];
  u64 taken[kMostRanks][kMostLanes];
};

/// What the peers write into a rank's memory: grains of the ring, as counted above, << 32 | the launch's number << 16 |
/// the chain of all launches so far.
struct ProgramFlags {
  u64 arrived[kMostRanks][kMostLanes];
  u64 emptied[kMostRanks][kMostLanes];
};

/// The more ranks, the shorter the rings: their memory stays about the same.
constexpr u64 ring_bytes(u32 ranks) {
  u64 bytes = 393216;
  for (u32 reached = 2; reached < ranks; reached *= 2) bytes /= 2;
  return bytes;
}

/// Of the rings that a rank keeps: of each peer and lane.
constexpr u64 rings_bytes(u32 ranks) { return u64{ranks - 1} * kMostLanes * ring_bytes(ranks); }

/// Where those begin for what comes from a peer.
constexpr u64 rings_offset(u32 rank, u32 from, u32 ranks) {
  return u64{from < rank ? from : from - 1} * kMostLanes * ring_bytes(ranks);
}

/// A launch of a program.
struct ProgramRun {
  u32 rank, ranks;
  u32 chunks;       // of each lane
  u32 ticks;        // chunks and the longest delay
  u32 puts, takes;  // instructions of either queue: first those that put
  u32 operands;     // all of them, behind the instructions
  u32 generations;  // of scratch memory: chunks that may use it at once
  u32 signature;    // 16 bits, equal on ranks that run programs of one plan
  u32 unused;
  u64 scratch_bytes;  // of a generation of a lane
  u64 timeout_ns;
  u64 program;  // Instruction[puts + takes], Operand[operands]
  u64 base[3];  // by Space
  u64 ring_bytes;
  u64 ring_to[kMostRanks];    // lane 0's at each rank, for what comes from here
  u64 ring_from[kMostRanks];  // here, for what comes from each rank
  u64 flags[kMostRanks];      // of each rank: ProgramFlags
  u64 program_control;        // ProgramControl
  u64 control;                // Control
  u64 fault;                  // FaultRecord
};

/// Of a block, where so many threads run in step.
constexpr int program_threads(int warp) { return kPutters + kTakers + 2 * warp; }

}  // namespace lanecast::gpu
