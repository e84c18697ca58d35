// SPDX-License-Identifier: Apache-2.0
// The algorithms, one file each. An all-gather is enough: played backwards it is a reduce-scatter, backwards and then
// forwards an all-reduce. The registry at the end is the one place that lists them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/builder.h"
#include "topology/topology.h"

namespace lanecast {

// All-gathers among any ranks; see each file for source, rounds and bytes.
void ring(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);
void recursive_doubling(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);
void bruck(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);
void direct(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);
void native_all_gather(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);

// All-reduces of a whole vector, for messages so small that only the number of rounds counts.
void folding(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);
void one_shot(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);
void native_all_reduce(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);

/// All-gathers `across` (one per level of the topology, outermost first) and `within` the innermost domains, combined.
/// The result refers to the topology.
AllGather hierarchical(const Topology& topology, std::vector<AllGather> across, const AllGather& within);

/// Rounds and the share of the full buffer that the busiest rank sends, for n members: T = rounds·α + volume·bytes·β.
struct Cost {
  double rounds = 0;
  double volume = 0;
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
  Cost (*cost)(int ranks);
  std::string_view source;
};

std::span<const AllGatherRow> all_gather_rows();
std::span<const AllReduceRow> all_reduce_rows();

/// This rank's plan. `algorithm`: a row's name, or "hierarchical(ACROSS,…,WITHIN)" with one name per level, outermost
/// first, and one for the innermost domains. Throws UsageError for names and shapes that do not exist.
Plan make_plan(const Collective& collective, int rank, const Topology& topology, std::string_view algorithm);

/// Every name that make_plan takes for this collective and topology.
std::vector<std::string> algorithms_for(Kind kind, const Topology& topology);

}  // namespace lanecast
