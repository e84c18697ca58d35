// SPDX-License-Identifier: Apache-2.0
// What the host hands to the kernels, and the memory that they share with other ranks' kernels: one text for both
// compilers, so that neither can see another layout. Numbers are of fixed size; addresses are those of this process.
#pragma once

namespace lanecast::gpu {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kMostRanks = 16;   // whose memory one kernel reaches: those of a host
constexpr int kMostBlocks = 64;  // of a kernel that waits for other ranks; all of them have to be resident at once
constexpr int kMovers = 768;     // threads of such a block that write to the peers or take what has come
// Of them, those that write to the peers. A thread's access waits behind all that its block has on the way to the
// peers: where more is read and written to take a piece than to send it, fewer send. Between H200s 128 instead of 384
// saved reduce-scatters of 64 MiB and 256 MiB 10 and 6 %, and cost all-gathers 1 %.
constexpr int kCopySenders = 384;
constexpr int kReduceSenders = 128;
// Of those of an all-reduce in two shots: those that write to the peers, and those that reduce; the others take
// results.
constexpr int kTwoShotSenders = 128;
constexpr int kTwoShotReducers = 384;
constexpr int kThreads = 512;        // of a block of other kernels
constexpr int kDirectThreads = 768;  // but for those that work at the peers, of which as few run
constexpr int kMeetingThreads = 32;  // but for those that meet them only
constexpr int kAreas = 2;            // exchanges that may be under way on two ranks at once
constexpr int kSlots = 4;            // pieces of a message under way, per block; signals are a round late at either end
constexpr u64 kSlotBytes = 98304;    // with kMostBlocks, at most
constexpr int kDepth = 4;            // chunks of a message under way that copy engines carry
constexpr int kMostWindows = 256;    // of a rank's memory, that its peers reach
constexpr u32 kNoRoot = ~0u;
constexpr int kWindowShift = 48;  // a place in one: its number + 1, then so many bits of bytes from where it begins

/// Whether a wait has failed, and how: in the host's memory, written once by the device.
enum class Fault : u32 { none, timeout, mismatch, overlap, counts };
enum class WaitKind : u32 { piece, barrier, chunk, sent, received, program };
struct FaultRecord {
  u32 fault;   // written last
  u32 poison;  // by the host: nothing that is waited for will come
  u64 ran_ns;  // by the host, now and then: how long its process has run
  u32 rank, peer;
  u32 call;   // of the group, counted from 0; of an overlap: as ProgramRun::captured; of counts: CountFault
  u32 round;  // piece of the message; of an overlap: the same of the launch that was at work; of counts: the row
  u32 signature, found;
  u32 place;  // WaitKind
  u32 unused;
  // Of a message between two ranks: as it was called for here, and at the peer. Of counts: elements, and how many may
  // be.
  u64 bytes, found_bytes;
};

constexpr u32 kEnded = 2;

/// This rank's own state, in its memory; only its kernels touch it, and a peer's host the word `failed`. Counters live
/// here and not in arguments, so that a captured graph counts on when it is replayed.
struct Control {
  u32 call;    // number of the next exchange; it moves on when all blocks of one have read it
  u32 come;    // blocks
  u32 failed;  // a wait has failed, or a peer has given up: nothing waits any more; kEnded: the communicator has gone
  u32 taken;   // the last offer was: what stands behind it in case that it is not has nothing to do
  u64 barriers;
  u64 meetings;  // two for each call on symmetric memory
};

/// What a rank says of its buffers when it begins a call on windows: written last to first.
struct Offer {
  u64 called;   // number of the call + 1 << 16 | signature
  u64 in, out;  // where they lie; 0: peers need not reach it
};

/// What other ranks write into this rank's memory; each word is written by one of them.
struct Flags {
  u64 arrived[kMostRanks][kMostBlocks];  // call << 32 | signature << 16 | pieces that lie in the slots
  u64 emptied[kMostRanks][kMostBlocks];  // the same of pieces taken out of the slots; in two shots, reduced
  u64 fetched[kMostRanks][kMostBlocks];  // the same of pieces of a result, in two shots
  u64 met[kMostRanks][kMostBlocks];      // count << 16 | signature
  u64 barrier[kMostRanks];               // the same
  // Chunks in staging memory, as semaphores of one: a copy engine can write a number, but not count.
  u32 full[kMostRanks][kDepth];  // that rank has filled its slot here
  u32 free[kMostRanks][kDepth];  // that rank has emptied this one's slot there
  Offer offers[kMostRanks][kMostBlocks];
};

/// Where the windows of all ranks lie in this process, in the memory of its GPU; and how many calls they have served.
struct WindowTable {
  u64 taken;
  u64 at[kMostRanks][kMostWindows];
};

/// Every rank sends a message to every other and combines what it gets, with what it brings itself, into its output. In
/// two shots: `source` and `target` are each rank's share of the vector in this rank's input and output, and recv_bytes
/// its length.
struct Exchange {
  u32 rank, ranks;
  u32 op;                        // ReduceOp, of the kernels that reduce
  u32 root;                      // whose message all get, or who alone gets the result; kNoRoot: all do
  u32 signature;                 // 16 bits, equal on ranks that make the same call
  u32 multicast;                 // all messages are the same
  u32 send_rounds, recv_rounds;  // of the longest message, one at least: its pieces
  u32 offered;                   // in case that the offer before it is not taken
  u32 own_counts;                // of a message only its two ranks know the length, so those compare it
  u32 pace_ps;                   // that a KiB to the peers takes a block at least, by pumps; 0: as fast as it goes
  u32 overrange;                 // of an average: how sums beyond the range lie; 0: there are none
  double divisor;                // of an average
  u64 slice_bytes;               // of a message's piece, per block; a multiple of 16, at most slot_bytes
  u64 slot_bytes;                // the blocks of a call share the room: the fewer, the longer their slots
  u64 room_bytes;                // of each message's slots
  u64 timeout_ns;
  u64 source[kMostRanks];  // message to each rank; to itself: what it brings
  u64 send_bytes[kMostRanks];
  u64 target[kMostRanks];  // of each rank's message; a kernel that reduces has one, target[0]
  u64 recv_bytes[kMostRanks];
  u64 inbox[kMostRanks];  // of each rank: slots
  u64 flags[kMostRanks];  // of each rank: Flags
  u64 control;            // Control
  u64 fault;              // FaultRecord
};

/// Of a block, where so many threads run in step, 32 or 64: a warp beside each kind waits and signals for it.
constexpr int exchange_threads(int warp) { return kMovers + 2 * warp; }
constexpr int two_shot_threads(int warp) { return kMovers + 3 * warp; }
constexpr int chain_threads(int warp) { return kMovers + 2 * warp; }
constexpr int pumped_chain_threads(int warp) { return 3 * warp; }

// Of an all-reduce in two shots whose bytes go by the copy engines of multiprocessors. A pump is one thread that cuts
// what goes one way into tiles, with so many of them on the way to shared memory ahead of those that leave it, and so
// many of these.
constexpr u32 kTile = 8192;
constexpr int kTilesAhead = 2;
constexpr int kTilesUnderWay = 3;
constexpr int kTiles = kTilesAhead + kTilesUnderWay;
constexpr int kPumps = 2;
constexpr u32 kPumpBytes = kTiles * kTile;
// What is reduced lies in shared memory, too: tiles of all ranks at a stage, which one of the groups of threads adds
// up. Of the stages so many are on their way from there.
constexpr int kStages = 8;
constexpr int kStagesUnderWay = 2;
constexpr u32 kStageBytes = 16384;
constexpr int kAdders = 128;  // threads of a group
constexpr int kAdderGroups = 4;
static_assert(kStages % kAdderGroups == 0);  // a stage is always the same group's, or it would mistake its marks
constexpr u32 kPumpedBytes = kPumps * kPumpBytes + kStages * kStageBytes;  // of shared memory
constexpr u32 pumped_two_shot_threads(u32 warp) { return kAdders * kAdderGroups + 10 * warp; }

/// The more ranks, the shorter the slots: their memory stays about the same. Among four H200s slots half as long cost
/// all-gathers and reduce-scatters of 256 MiB 12 %, and twice as long ones 2 %.
constexpr u64 slot_bytes(u32 ranks) {
  u64 bytes = kSlotBytes;
  for (u32 peers = 2; peers + 1 < ranks; peers *= 2) bytes /= 2;
  return bytes;
}

/// For a message's slots.
constexpr u64 room_bytes(u32 ranks) { return u64{kSlots} * kMostBlocks * slot_bytes(ranks); }

/// Bytes of a rank's inbox, which has no slots for itself.
constexpr u64 inbox_bytes(u32 ranks) { return u64{kAreas} * (ranks - 1) * room_bytes(ranks); }

/// Of a message. Even an empty one has a piece: its receiver counts on hearing from everybody once a call.
constexpr u64 pieces(u64 bytes, u64 blocks, u64 slice_bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / (blocks * slice_bytes) + 1;
}

/// What the one-block kernels between copies need.
struct GroupArguments {
  u32 rank, ranks;
  u32 signature;
  u32 unused;
  u64 timeout_ns;
  u64 flags[kMostRanks];
  u64 control, fault;
};

/// Slots of staging memory handed on: bit peer · kDepth + slot of each mask.
struct Handover {
  GroupArguments group;
  u64 empties;  // this rank has emptied what the peer had filled
  u64 fills;    // this rank has filled its slot at the peer
  u64 needs_full, needs_free;
};

/// Every target = sources[0] op sources[1] op …; a copy of one source is that, too.
struct ReductionArguments {
  u64 target[kMostRanks];
  u64 source[kMostRanks];
  u64 bytes;
  double divisor;
  u32 targets, sources;
  u32 op;
  u32 overrange;  // as in Exchange
};

/// Of a call whose buffers lie in windows, each rank's wherever it has put them.
struct Offering {
  u64 windows;          // WindowTable; 0: the places of all ranks are known
  u64 in, out;          // as in Offer
  u64 own_in, own_out;  // in this process
  u64 in_at, out_at;    // what this rank moves: so many bytes behind the beginnings of all ranks' buffers
};

/// A reduction, or with one source a copy, whose sources or targets lie at the peers. In an offering they are found by
/// the kernel.
struct Direct {
  GroupArguments group;
  ReductionArguments work;
  Offering offering;
};

}  // namespace lanecast::gpu
