// SPDX-License-Identifier: Apache-2.0
// Every number on which choices among GPUs depend and which another kind of GPU has differently: a table for each kind
// that somebody has measured, in a file of its own, and one that holds for all others.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/kind.h"
#include "select/peer_engines.h"

namespace lanecast {

/// T = α + bytes·β + min(bytes, first_bytes)·γ for the bytes that a rank sends. γ: of the first pieces, which nothing
/// overlaps.
struct WayTime {
  double alpha_s, beta_s_per_byte, gamma_s_per_byte = 0;
};

/// What is assumed of the ways among the GPUs of a host, until `lanecast tune --device cuda` has measured.
struct WayTimes {
  double first_bytes;
  WayTime kernel, copy_engine;
  WayTime two_shot, two_shot_by_few, two_shot_pumped;  // all-reduces: by all threads, few blocks, and copy engines
  WayTime spread, collected;                           // a broadcast and a reduce in two shots, for the whole bytes
  WayTime chain;                                       // a broadcast along a chain, whole bytes
  double chain_link_s;                                 // that each link of it adds
  WayTime direct_copy, direct_messages;                // an all-gather; an all-to-all
  WayTime direct_reduction, direct_all_reduce_by_few;
  double nccl_marks_s;  // what NCCL's call takes between the marks by which its deadline is kept
  /// In a graph a barrier stands before it, so it does not begin while the one before still ends: for each rank beyond
  /// the first one, as its pipelines fill.
  double nccl_alone_s;
};

/// NCCL's time over that of our kernels on plain memory, where both were timed in turns: without multicast, as called
/// one by one and as replayed from a graph. Holds from so many bytes of the full buffer up to the next row.
struct NcclTime {
  Kind kind;
  int ranks;
  std::size_t from_bytes;
  double eager, replayed;
  bool half = false;  // of sums of 16-bit floats; else of all that has no row of its own
};

/// What a machine that was learned from times of whole calls takes, from so many bytes of the full buffer up to the
/// next row of the same calls. Rows of the same calls stand together.
struct LearnedBorder {
  Kind kind;
  int ranks;
  WayCalls calls;
  std::size_t from_bytes;
  PeerEngine engine;
};

/// Of one card among the kind's: where two ways are within a few percent, the memory behind equal links decides.
struct LearnedTable {
  std::string_view gpu;
  std::size_t most_bytes;  // beyond which nothing was timed
  std::span<const LearnedBorder> borders;
};

/// How kernels cut what they carry through slots. Bytes are of a message between two ranks, unless said.
struct SlotCuts {
  std::size_t long_bytes;     // from here on a message takes more than short_blocks
  int short_blocks;           // multiprocessors
  std::size_t block_bytes;    // shorter messages take fewer blocks
  std::size_t longest_piece;  // of a block
  int few_reduce;             // blocks; where so many or fewer reduce a message, pieces are twice as long
  // Of a block's share of a message:
  std::size_t whole_bytes;   // shorter ones go in one piece
  std::size_t short_bytes;   // up to here pieces are of short_piece
  std::size_t short_piece;   // bytes
  std::size_t least_pieces;  // of longer ones
};

/// How all-reduces and broadcasts in two shots are cut.
struct TwoShotCuts {
  std::size_t piece, broadcast_piece;  // bytes, of a block
  int few_blocks;                      // so many or fewer take pieces twice as long
  // By the copy engines of multiprocessors, where kernels have such:
  std::size_t pumped_by_few, pumped;   // bytes that a rank sends in each shot, from which on; with few and many blocks
  std::size_t pumped_pieces;           // bytes of a round, to all peers
  int pumped_blocks;                   // at most
  double link_bytes_per_s;             // a rank sends no faster to its one peer; 0: it is not held back
  double link_of_several_bytes_per_s;  // the same with several peers
};

/// How calls along a chain are cut.
struct ChainCuts {
  std::size_t piece;         // bytes, of a block; by threads
  std::size_t pumped;        // bytes of a broadcast from which on copy engines of multiprocessors move it
  int pumped_blocks;         // at most
  std::size_t pumped_piece;  // bytes
};

/// How calls that work at the peers, on symmetric memory, are made.
struct DirectCuts {
  int all_reduce_blocks;           // multiprocessors, of an all-reduce that spares them
  int blocks_beside_engines;       // that copy within a GPU while copy engines send
  std::size_t by_engines;          // bytes from which on copy engines serve an all-gather
  std::size_t by_engines_apart;    // the same where a kernel has to copy what a rank keeps, and has many blocks
  std::size_t least_offer;         // bytes of a message from which on offering windows pays its launch
  std::size_t engine_chunk_bytes;  // of a collective by copy engines through staging memory, at most
};

/// What a call between hosts costs a GPU, and its share of the host.
struct CostsBetweenHosts {
  double reduce_s_per_byte;     // a kernel that adds two values and writes one
  double host_copy_s_per_byte;  // to or from the host's memory, beside whoever moves the messages there
};

struct GpuKind {
  std::span<const std::string_view> names;  // by their drivers
  WayTimes times;
  std::span<const NcclTime> nccl;  // ascending by from_bytes
  std::span<const LearnedTable> learned;
  SlotCuts slots;
  TwoShotCuts two_shots;
  ChainCuts chain;
  DirectCuts direct;
  CostsBetweenHosts between_hosts;
  std::size_t program_lane_bytes;  // of the longest message of a program; shorter ones take fewer lanes
  int local_blocks;                // multiprocessors of kernels that copy or add within a GPU, and wait for nobody
};

/// For any other, and for ranks with GPUs of several kinds.
extern const GpuKind kUnknownGpu;

/// Null where nobody has timed it among so many.
const NcclTime* find_nccl_time(const GpuKind& gpu, Kind kind, int ranks, bool half, std::size_t bytes);

/// By the name that the driver has for the GPUs of all ranks; empty: they are of several kinds.
const GpuKind& gpu_kind(std::string_view name);

}  // namespace lanecast
