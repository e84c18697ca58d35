// SPDX-License-Identifier: Apache-2.0
// The algorithms, one page each. Each serves more than one collective: played backwards an all-gather is a
// reduce-scatter, a broadcast a reduce and a scatter a gather; backwards and then forwards an all-gather is an
// all-reduce; and an all-gather to which only the root brings something is a broadcast. The registry lists them.
#pragma once

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
void library_all_gather(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);

/// The all-gather below where several bring something, and where only one does, the library's broadcast.
void library_broadcast(PlanWriter& plan, const Ranks& ranks, const PieceLists& own);

// All-reduces of a whole vector that are no all-gathers played both ways.
void folding(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);
void one_shot(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);
void double_tree(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);
void library_all_reduce(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces);

/// The reduce-scatter behind every reproducible sum: afterwards ranks[k] holds own[k], reduced in one step in rank
/// order.
void in_rank_order(PlanBuilder& plan, const Ranks& ranks, const PieceLists& own);

// Scatters.
void binomial_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own);
void direct_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own);
void library_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own);

// All-to-alls.
void pairwise(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels);
void bruck_all_to_all(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels);
void library_all_to_all(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels);

// Algorithms `across` (one per level of the topology, outermost first) and `within` the innermost domains, combined.
// The results refer to the topology.
AllGather hierarchical(const Topology& topology, const std::vector<AllGather>& across, const AllGather& within);
/// False, with nothing written, where the outermost domains have unequal numbers of ranks.
bool multi_lane_all_reduce(PlanBuilder& plan, const Topology& topology, const AllGather& within);
Scatter hierarchical_scatter(const Topology& topology, const std::vector<Scatter>& across, const Scatter& within);
AllToAll hierarchical_all_to_all(const Topology& topology, const std::vector<AllToAll>& across, const AllToAll& within);

/// How a broadcast goes: the root hands the owners their stripes of the vector, and these are gathered everywhere.
/// Where the root keeps the whole vector nothing is handed out, and an all-gather alone is the tree or the chain.
struct Broadcast {
  Ranks owners;
  PieceLists stripes;  // of each owner
  AllGather gather;
  bool in_stages = false;  // gather is; then handing out is one as well
  bool by_root = false;    // see hands_out_itself

  void write(PlanBuilder& plan, const Ranks& ranks, int root) const;
  void write_reduce(PlanBuilder& plan, const Ranks& ranks, int root) const;
};

/// Do the hierarchies of a topology have stages, so that chunks are at work on both of its levels?
inline bool has_stages(const Topology& topology) { return topology.levels() == 1; }

/// Does a root hand its domain's stripes out itself, by a link to each rank, of which a tree leaves most idle? It sends
/// as many bytes as down a tree, in more messages. With one level the domain is a node. With more it may be several
/// nodes, where messages are dear; so many ranks, the most that a described machine's node has, are a few more.
constexpr bool hands_out_itself(int ranks, int levels) { return levels == 1 || ranks <= 12; }

/// This rank's plan. `algorithm`: a row's name, or "hierarchical(ACROSS,…,WITHIN)" with one name per level, outermost
/// first, and one for the innermost domains. Where a sum has to be reproducible it gathers the finished parts and has
/// no say in how they are reduced. Throws UsageError for names, roots and shapes that do not exist.
Plan make_plan(const Collective& collective, int rank, const Topology& topology, std::string_view algorithm);

/// Every name that make_plan takes for this collective and topology.
std::vector<std::string> algorithms_for(Kind kind, const Topology& topology, bool reproducible = false);

/// Is it one of those, or, in the second case, of any collective's?
bool has_algorithm(Kind kind, const Topology& topology, std::string_view algorithm);
bool any_has_algorithm(const Topology& topology, std::string_view algorithm);

}  // namespace lanecast
