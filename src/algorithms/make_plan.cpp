// SPDX-License-Identifier: Apache-2.0
// From a collective and an algorithm's name to a plan: reduce-scatter, reduce and gather as reverses, all-reduce as
// reverse and forward; where bits must be reproducible, the reverse gives way to one reduction in rank order.
#include <algorithm>

#include "algorithms/names.h"
#include "plan/reverse.h"

namespace lanecast {
namespace {

/// The rows' algorithm: one, or those of the levels combined.
template <class Algorithm, class Row, class Combine>
Algorithm combined(const std::vector<const Row*>& rows, const Topology& topology, const Combine& hierarchy) {
  std::vector<Algorithm> across;
  across.reserve(rows.size());
  for (const Row* row : rows) across.emplace_back(row->build);
  const Algorithm within = std::move(across.back());
  across.pop_back();
  return across.empty() ? within : hierarchy(topology, across, within);
}

struct Context {
  const Collective& collective;
  const Topology& topology;
  std::string_view algorithm;
  Ranks ranks;
};

void write_gathering(PlanBuilder& plan, const Context& call) {
  const Collective& what = call.collective;
  if (what.kind == Kind::all_reduce)
    if (const AllReduceRow* row = find(all_reduce_rows(), call.algorithm)) {
      if (what.reproducible && !row->reproducible)
        refuse(call.algorithm,
               "adds in an order of its own, which reproducible=True rules out; one_shot and all "
               "all-gather algorithms keep the order");
      return row->build(plan, call.ranks, whole(0));
    }
  PieceLists own;
  for (int r = 0; r < what.size; ++r)
    own.push_back(what.kind == Kind::all_reduce ? cut(whole(0), r, what.size) : whole(r));
  const auto rows = rows_named(all_gather_rows(), call.algorithm, call.topology);
  const bool lanes_by_mpi = rows.size() == 2 && rows[0]->name == kMpi;
  if (what.kind == Kind::all_reduce && !what.reproducible && lanes_by_mpi &&
      multi_lane_all_reduce(plan, call.topology, rows[1]->build))
    return;
  const auto gather = combined<AllGather>(rows, call.topology, hierarchical);
  if (what.reduces() && what.reproducible) {
    in_rank_order(plan, call.ranks, own);
  } else if (what.reduces()) {
    reverse(plan, Returning::added, [&](PlanWriter& tape) { gather(tape, call.ranks, own); });
    plan.complete(own[plan.rank()]);
    plan.end_stages();
  }
  if (what.kind != Kind::reduce_scatter) gather(plan, call.ranks, own);
}

/// Everyone reduces a share in rank order, and the root collects them.
void write_reduce_in_rank_order(PlanBuilder& plan, const Context& call) {
  PieceLists own;
  for (int r = 0; r < call.collective.size; ++r) own.push_back(cut(whole(0), r, call.collective.size));
  in_rank_order(plan, call.ranks, own);
  reverse(plan, Returning::placed,
          [&](PlanWriter& tape) { direct_scatter(tape, call.ranks, call.collective.root, own); });
}

/// All ranks where the algorithm scatters, those of the root's node in a hierarchy, else the root alone.
Ranks owners(const Context& call, bool scatters) {
  if (scatters) return call.ranks;
  if (!is_hierarchical(call.algorithm)) return {call.collective.root};
  for (const Ranks& node : call.topology.partition(call.ranks, 0))
    if (std::ranges::count(node, call.collective.root) > 0) return node;
  throw InternalError("plan: the root is in no node");
}

void write_broadcast(PlanBuilder& plan, const Context& call) {
  const auto rows = rows_named(broadcast_rows(), call.algorithm, call.topology);
  const bool hierarchy = is_hierarchical(call.algorithm);
  Broadcast broadcast{owners(call, rows[0]->scatters), {}, combined<AllGather>(rows, call.topology, hierarchical)};
  const int n = static_cast<int>(broadcast.owners.size());
  broadcast.in_stages = hierarchy && has_stages(call.topology);
  broadcast.by_root = hierarchy && hands_out_itself(n, call.topology.levels());
  for (int k = 0; k < n; ++k) broadcast.stripes.push_back(cut(whole(0), k, n));
  if (call.collective.kind == Kind::broadcast)
    broadcast.write(plan, call.ranks, call.collective.root);
  else
    broadcast.write_reduce(plan, call.ranks, call.collective.root);
}

void write_scatter(PlanBuilder& plan, const Context& call) {
  const auto rows = rows_named(scatter_rows(), call.algorithm, call.topology);
  const auto scatter = combined<Scatter>(rows, call.topology, hierarchical_scatter);
  PieceLists own;
  for (int r = 0; r < call.collective.size; ++r) own.push_back(whole(r));
  const auto forward = [&](PlanWriter& writer) { scatter(writer, call.ranks, call.collective.root, own); };
  if (call.collective.kind == Kind::scatter)
    forward(plan);
  else
    reverse(plan, Returning::placed, forward);
}

void write_all_to_all(PlanBuilder& plan, const Context& call) {
  const int size = call.collective.size;
  if (size > kMostExchanging)
    refuse(call.algorithm, "an all_to_all of " + std::to_string(size) + " ranks has more parts than can be numbered");
  const auto rows = rows_named(all_to_all_rows(), call.algorithm, call.topology);
  const auto exchange = combined<AllToAll>(rows, call.topology, hierarchical_all_to_all);
  exchange(plan, call.ranks, [size](int from, int to) { return whole(from * size + to); });
}

}  // namespace

Plan make_plan(const Collective& collective, int rank, const Topology& topology, std::string_view algorithm) {
  if (topology.size() != collective.size)
    throw InternalError("plan: a topology of " + std::to_string(topology.size()) + " ranks for a collective of " +
                        std::to_string(collective.size));
  if (collective.root < 0 || collective.root >= collective.size)
    throw UsageError("root: rank " + std::to_string(collective.root) + " does not exist among " +
                     std::to_string(collective.size));
  if (collective.in_place && !may_be_in_place(collective.kind))
    throw UsageError("in_place: an " + std::string(name_of(collective.kind)) + " needs two buffers");
  const bool chosen_for_us = collective.kind == Kind::reduce_scatter || collective.kind == Kind::reduce;
  if (collective.reproducible && chosen_for_us && algorithm != kInRankOrder)
    refuse(algorithm, "a reproducible " + std::string(name_of(collective.kind)) +
                          " is always one direct exchange; name 'direct' or none");
  PlanBuilder plan(collective, rank);
  const Context call{collective, topology, algorithm, topology.everyone()};
  switch (collective.kind) {
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_reduce:
      write_gathering(plan, call);
      break;
    case Kind::reduce:
      if (collective.reproducible) {
        write_reduce_in_rank_order(plan, call);
        break;
      }
      [[fallthrough]];
    case Kind::broadcast:
      write_broadcast(plan, call);
      break;
    case Kind::gather:
    case Kind::scatter:
      write_scatter(plan, call);
      break;
    case Kind::all_to_all:
      write_all_to_all(plan, call);
      break;
    case Kind::composition:
      throw InternalError("plan: compositions are lowered, not planned by an algorithm");
  }
  return plan.finish(std::string(algorithm));
}

}  // namespace lanecast
