// SPDX-License-Identifier: Apache-2.0
// The one place that lists the algorithms: tests, benchmark, documentation and selector read these tables.
#pragma once

#include "algorithms/algorithms.h"

namespace lanecast {

/// Rounds and the share of the full buffer that the busiest rank sends, for n members: T = rounds·α + volume·bytes·β.
/// In a pipeline every round moves that volume, and chunks fill the rounds: with c chunks
/// T = (rounds + c − 1)·(α + volume·bytes·β / c).
struct Cost {
  double rounds = 0;
  double volume = 0;
  bool pipelined = false;
  bool steady = false;       // every rank sends to one neighbour only
  double even = 1;           // what the ranks send on average, over what the busiest does
  double messages = 1;       // that the busiest rank sends for each chunk, where those are more than the rounds
  bool one_content = false;  // a broadcast in which one rank sends all others the same at once
  bool hands_out = false;    // a scatter in which one rank sends all others their own at once
};

struct AllGatherRow {
  std::string_view name;
  void (*build)(PlanWriter&, const Ranks&, const PieceLists&);
  bool (*takes)(int ranks);
  Cost (*cost)(int ranks);  // of the all-gather and, reversed, of the reduce-scatter
  std::string_view source;
};

struct AllReduceRow {
  std::string_view name;
  void (*build)(PlanBuilder&, const Ranks&, const Pieces&);
  bool reproducible;  // reduces once, in rank order
  Cost (*cost)(int ranks);
  std::string_view source;
};

struct BroadcastRow {
  std::string_view name;
  void (*build)(PlanWriter&, const Ranks&, const PieceLists&);  // an all-gather
  bool scatters;                   // first the root hands everyone a stripe; such a row makes no level of a hierarchy
  Cost (*cost)(int ranks);         // of the broadcast and, reversed, of the reduce
  Cost (*gather_cost)(int ranks);  // of `build` where everyone brings a stripe
  std::string_view source;
};

struct ScatterRow {
  std::string_view name;
  void (*build)(PlanWriter&, const Ranks&, int, const PieceLists&);
  bool forwards;            // do ranks pass on what others are to get?
  Cost (*cost)(int ranks);  // of the scatter and, reversed, of the gather
  std::string_view source;
};

struct AllToAllRow {
  std::string_view name;
  void (*build)(PlanWriter&, const Ranks&, const Parcels&);
  bool forwards;            // do ranks pass on what others send each other?
  Cost (*cost)(int ranks);  // the full buffer is what one rank brings
  std::string_view source;
};

std::span<const AllGatherRow> all_gather_rows();
std::span<const AllReduceRow> all_reduce_rows();
std::span<const BroadcastRow> broadcast_rows();
std::span<const ScatterRow> scatter_rows();
std::span<const AllToAllRow> all_to_all_rows();

inline constexpr std::string_view kHierarchical = "hierarchical(";
inline bool is_hierarchical(std::string_view algorithm) { return algorithm.starts_with(kHierarchical); }
/// Steps in which a group calls a collective as a whole: MPI's, NCCL's or RCCL's, and our own kernels among the GPUs of
/// a host. The plan is the same, and says nothing of who runs it.
inline constexpr std::string_view kMpi = "mpi", kNccl = "nccl", kPeers = "peers";
/// Is any level of it that library's?
inline bool has_level(std::string_view algorithm, std::string_view library) {
  return algorithm.find(library) != std::string_view::npos;
}
inline bool has_library(std::string_view algorithm) {
  return has_level(algorithm, kMpi) || has_level(algorithm, kNccl) || has_level(algorithm, kPeers);
}

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

/// Do ranks handle parts that they neither bring nor end with? Then they need to know the counts of all.
bool forwards(Kind kind, std::string_view algorithm);

}  // namespace lanecast
