// SPDX-License-Identifier: Apache-2.0
// The instruction set of programs: what a rank's plan becomes for its GPU, and what the kernel that interprets it
// takes.
//
// A kernel has lanes, which are its blocks. Lane b of a rank talks to the lanes b of its peers only, and runs the whole
// program on its own slice of every part: the k-th of chunks · lanes slices, for k = chunk · lanes + b. Each lane works
// off two queues side by side, each in order: one puts messages to peers, one takes what has come, copies and reduces.
//
// A message to a rank of another host is carried by a proxy, a thread of the host. It consists of the shares of some
// lanes, which make up a channel. A put says that its lane's share is there, and the proxy sends the message when all
// are; a take awaits what the proxy has received, and says that its lane's share has been taken.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kMostLanes = 64;
constexpr u64 kGranule = 16;          // bytes: slices and pieces of them begin at multiples of it within their part
constexpr u64 kRingGrain = 128;       // bytes: messages begin at multiples of it within their ring
constexpr u32 kRunsAtOnce = 8;        // that an instruction has, at most; a longer list becomes several instructions
constexpr u32 kProgramBytes = 16384;  // of a program that a block keeps in shared memory; a longer one stays in global
// Threads of a block that put, and those that take, copy and reduce; beside either a warp that waits, and one that
// signals. Of 768, between two H200s 256 and 512 were faster than 384 and 384, and much faster than 512 and 256: what
// is put is read once, what is taken is read and written, and reduced besides.
constexpr int kPutters = 256;
constexpr int kTakers = 512;

enum class Operation : u8 {
  put,          // into the ring that the peer keeps for this lane, or into a message that the proxy sends
  take,         // out of the ring that this lane keeps for the peer, or out of a message that the proxy has received
  take_reduce,  // likewise; the target becomes the source and what has come
  copy,
  reduce,  // of several sources
};

/// Where the bytes of an operand lie, beside the base that a launch passes.
enum class Space : u16 { in, out, scratch };

/// A run of bytes: of a part, what lies between two places of the lane's slice of it.
struct Operand {
  u64 base;    // bytes in front of the part in its buffer; in scratch: in front of the slot
  u64 bytes;   // of the part
  u64 stride;  // bytes of a slice; the last one may be shorter
  Space space;
  u16 den_log;        // den is this power of two; 0: it may be anything
  u32 from, to, den;  // places of a slice as from/den and to/den of it
  u32 slot_from;      // in scratch: the place at which the slot begins
  u32 row;  // of the table of counts, from 1, which says base (but in scratch), bytes and stride; 0: these hold
};

struct Instruction {
  Operation operation;
  u8 ends;            // put, take: the last instruction of its message
  u8 op;              // ReduceOp, of what reduces
  u8 writes_scratch;  // so a slot is used again, which the other queue may still read
  u16 peer;           // among the ranks of this host; of a carried message 0
  u8 sources;         // of each run, of what reduces
  u8 joined;     // a put and the sum, that it needs and puts: if there is room by then, that writes into the ring too
  u32 runs;      // each has its target first, where that is no ring, then its sources, where those are none
  u32 operands;  // place of the first run's first
  u32 delay;     // at tick t it works on chunk t - delay
  // Of the other queue, what has to have ended: so many instructions of the tick that is so many before this one's.
  u32 needs, needs_back;
  u32 step;        // of the plan, for people
  u32 overrange;   // as in Reduction
  u32 carried;     // put, take: number of its carried message, from 1; 0: it goes through a ring
  double divisor;  // as in Reduction
};

/// A message between hosts, one of each chunk and channel. In a slot the k-th lane's share lies k · lane_bytes behind
/// the beginning, so those of a channel lie together.
struct CarriedMessage {
  u64 place;       // bytes in front of its slots in the memory that they lie in
  u64 lane_bytes;  // of a share, at most
  u32 slots;       // each holds a chunk of all lanes; chunks take them in turn
  u32 on_host;     // 1: in pinned memory of the host; 0: in this GPU's
  u32 chunks;      // of each lane; the rest of the launch's are empty
  // Where counts come with the launch, it says all of these but the slots, by what follows.
  u32 pieces, piece;  // operands: of each part what the message has of it, and the first one's place
  u32 unused;
  u64 places[2];     // as `place`: in this GPU's memory, in the host's
  u64 least_on_gpu;  // bytes of a channel's chunk that lies on the GPU
};

// Counts that come with a launch. A table has a row for each part that the rank's program has: first those of its
// input, in their order, then those of its output, then the others. Each lane fills the table when it begins, and so
// does the proxy, both by these rules.

struct PartRow {
  u64 base;  // bytes in front of the part in its buffer
  u64 bytes, stride;
};

/// Bytes of a part's chunks where only its two ranks know how long it is: shorter parts have short ones, so that one is
/// put while another is on its way; long ones have few.
constexpr u64 kPairChunk = 262144, kLongPairChunk = 1048576;
constexpr u32 kPairChunks = 4;     // of those of middling length
constexpr u64 kLeastSlice = 2048;  // of such a part; a shorter part is for fewer lanes

constexpr u64 whole_granules(u64 bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

constexpr u32 pair_chunks(u64 bytes) {
  const u64 chunks = (bytes + kPairChunk - 1) / kPairChunk;
  if (chunks <= kPairChunks) return static_cast<u32>(chunks);
  const u64 long_ones = (bytes + kLongPairChunk - 1) / kLongPairChunk;
  return static_cast<u32>(long_ones > kPairChunks ? long_ones : kPairChunks);
}

constexpr u64 stride_of(u64 bytes, u64 slices) {
  return ((bytes + kGranule - 1) / kGranule + slices - 1) / slices * kGranule;
}

constexpr u64 pair_stride(u64 bytes, u32 lanes) {
  const u64 stride = bytes == 0 ? 0 : stride_of(bytes, u64{lanes} * pair_chunks(bytes));
  return stride > kLeastSlice ? stride : kLeastSlice;
}

/// Of a part of at most so many bytes.
constexpr u64 longest_pair_stride(u64 bytes, u32 lanes) {
  const u64 chunk = bytes <= kPairChunk * kPairChunks      ? (bytes < kPairChunk ? bytes : kPairChunk)
                    : bytes < kLongPairChunk * kPairChunks ? bytes / kPairChunks + 1
                                                           : kLongPairChunk;
  const u64 stride = stride_of(chunk, lanes) + kGranule;
  return stride > kLeastSlice ? stride : kLeastSlice;
}

/// Bytes that a lane has of a piece of a part, at most: in shorter slices it may be a granule longer.
constexpr u64 most_of_piece(const PartRow& row, const Operand& piece) {
  const u64 whole = whole_granules(row.bytes), slice = row.stride < whole ? row.stride : whole;
  const u64 hi = piece.to == piece.den ? slice : slice / kGranule * piece.to / piece.den * kGranule;
  const u64 lo = slice / kGranule * piece.from / piece.den * kGranule;
  const u64 most = slice == 0 ? 0 : hi - lo + kGranule;
  return most < slice ? most : slice;
}

/// Of shares, in whole lines of a cache.
constexpr u64 in_lines(u64 bytes) { return (bytes + 127) / 128 * 128; }

/// A message as a launch has it. chunks: of each lane; 0: each part is cut by itself.
constexpr CarriedMessage carried_now(CarriedMessage message, const Operand* operands, const PartRow* rows,
                                     u32 lanes_of_channel, u32 chunks) {
  u64 bytes = 0, slices = 0;
  message.chunks = chunks;
  for (u32 k = 0; k < message.pieces; ++k) {
    const Operand& piece = operands[message.piece + k];
    const PartRow& row = rows[piece.row - 1];
    bytes += most_of_piece(row, piece);
    if (chunks != 0) continue;
    if (pair_chunks(row.bytes) > message.chunks) message.chunks = pair_chunks(row.bytes);
    const u64 of_row = (row.bytes + row.stride - 1) / row.stride;
    if (of_row > slices) slices = of_row;
  }
  message.lane_bytes = in_lines(bytes);
  // Of a short part few lanes have a share.
  const bool is_short = chunks == 0 && message.lane_bytes <= kLeastSlice && slices < lanes_of_channel;
  const u64 together = message.lane_bytes * (is_short ? slices : lanes_of_channel);
  message.on_host = together >= message.least_on_gpu ? 0 : 1;
  message.place = message.places[message.on_host];
  return message;
}

/// What is wrong with a count that lies in the GPU's memory.
enum class CountFault : u32 { above_bound, beyond_buffer, own_differ };

/// The counts of a launch. Lists have 64 bits for each, in elements.
struct CountsOfRun {
  u32 rows;             // 0: the program has counts of its own
  u32 inputs, outputs;  // rows
  u32 by_pairs;         // each part is cut by itself, since only its two ranks know how long it is
  u32 own_in, own_out;  // rows of what this rank sends itself, from 1; 0: nothing
  u32 element_bytes;
  u32 unused;
  u64 list[2];      // of the inputs; of the outputs and the others
  u64 bound;        // of each count
  u64 held[2];      // elements of this rank's input and output
  u64 told;         // all of them, for the proxy; 0: it knows them
  u64 table;        // of lane 0, of a program that does not leave it room in shared memory
  u64 table_bytes;  // PartRow[rows], CarriedMessage[carried]
};

// Words by which a kernel and its proxy tell each other how far they are: number of the launch << 32 | count. They lie
// in pinned memory of the host. So a word of an earlier launch says nothing, and none is ever reset.
//
//   begun[launch % kAnnounced]    the launch has begun; the count is the number of the captured call that it replays,
//   from
//                                 1, or 0 where the host has enqueued it
//   says[m · lanes + lane]        that lane has put, or taken, its share of so many chunks of carried message m
//   ended[lane]                   that lane has ended the program
//   told[m · channels + channel]  so many chunks of it have left their slots, or have come; 0 once the proxy is there
//
// A launch announces itself, since nobody else tells the proxy of one that a graph replays. Of so many launches the
// proxy finds the announcement, which it has `read` up to some number.
constexpr u32 kAnnounced = 64;

/// What has gone through a ring, counted on from launch to launch, and where the next message begins.
struct alignas(8) RingPlace {
  u32 grains;
  u32 at;  // bytes behind the ring's front
};

/// A rank's state.
struct ProgramControl {
  u32 launches;  // so far; peers compare 16 bits of it
  u32 chain;     // 16 bits, equal on ranks that have run programs of the same plans in the same order
  // Launches of one communicator follow each other. Two that do not, as replays of graphs may, are found here.
  u64 entering;             // blocks of the launch that begins << 48 | the sum of what each takes it for
  u32 signature, captured;  // of the latest launch: as in ProgramRun
  u32 inside[kMostLanes];   // a launch is at work in this lane
  u32 entered[kMostLanes];  // number of the latest launch in this lane
  RingPlace put[kMostRanks][kMostLanes];
  RingPlace taken[kMostRanks][kMostLanes];
};

/// What the peers write into a rank's memory: grains of the ring, as counted above, << 32 | the launch's number << 16 |
/// what both have agreed on before the launch's first message: the chain of all launches so far, and what had moved.
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

static_assert(ring_bytes(kMostRanks) % kRingGrain == 0);

/// Of the rings that a rank keeps: of each peer and lane.
constexpr u64 rings_bytes(u32 ranks) { return u64{ranks - 1} * kMostLanes * ring_bytes(ranks); }

/// Where those begin for what comes from a peer.
constexpr u64 rings_offset(u32 rank, u32 from, u32 ranks) {
  return u64{from < rank ? from : from - 1} * kMostLanes * ring_bytes(ranks);
}

/// A launch of a program.
struct ProgramRun {
  u32 rank, ranks;
  u32 chunks;         // of each lane
  u32 ticks;          // chunks and the longest delay
  u32 puts, takes;    // instructions of either queue: first those that put
  u32 operands;       // all of them, behind the instructions
  u32 generations;    // of scratch memory: chunks that may use it at once
  u32 signature;      // 16 bits, equal on ranks that run programs of one plan
  u32 carried;        // messages, behind the operands
  u32 channels;       // of as many lanes each
  u32 captured;       // 24 bits: number of the captured call that this launch replays, from 1; 0: none
  u32 first_carried;  // of the puts, from 1; 0: none is carried
  u32 in_flow;        // 1: release_in_flow() tells what is put, where chunks are many
  u64 scratch_bytes;  // of a generation of a lane
  u64 timeout_ns;
  u64 program;  // Instruction[puts + takes], Operand[operands], CarriedMessage[carried]
  CountsOfRun counts;
  u64 base[3];  // by Space
  u64 ring_bytes;
  u64 ring_to[kMostRanks];    // lane 0's at each rank, for what comes from here
  u64 ring_from[kMostRanks];  // here, for what comes from each rank
  u64 flags[kMostRanks];      // of each rank: ProgramFlags
  u64 slots[2];               // of carried messages: in this GPU's memory, in the host's
  u64 begun, says, told;      // as above; 0 among ranks of one host
  u64 ended;                  // likewise
  u64 read;                   // up to which launch the proxy has read what was announced
  u64 heard;                  // as told, in this GPU's memory: what the first lane of each channel has heard
  u64 program_control;        // ProgramControl
  u64 control;                // Control
  u64 fault;                  // FaultRecord
};

/// Of a block, where so many threads run in step.
constexpr int program_threads(int warp) { return kPutters + kTakers + 4 * warp; }

}  // namespace lanecast::gpu
