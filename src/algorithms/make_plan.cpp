// SPDX-License-Identifier: Apache-2.0
// From a collective and an algorithm's name to a plan: reduce-scatter as the reverse, all-reduce as reverse and
// forward.
#include "algorithms/algorithms.h"
#include "plan/reverse.h"

namespace lanecast {
namespace {

constexpr std::string_view kHierarchical = "hierarchical(";

template <class Row>
const Row* find(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

[[noreturn]] void refuse(std::string_view algorithm, const std::string& why) {
  throw UsageError("algorithm '" + std::string(algorithm) + "': " + why);
}

const AllGatherRow& row_for(std::string_view name, std::string_view algorithm) {
  const AllGatherRow* row = find(all_gather_rows(), name);
  if (!row) {
    std::string known;
    for (const AllGatherRow& r : all_gather_rows()) known += " " + std::string(r.name);
    refuse(algorithm, "unknown name '" + std::string(name) + "'; known:" + known + ", hierarchical(ACROSS,…,WITHIN)" +
                          (find(all_reduce_rows(), name) ? " (this one is for all_reduce only)" : ""));
  }
  return *row;
}

bool takes_all(const AllGatherRow& row, const std::vector<std::size_t>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [&](std::size_t n) { return row.takes(static_cast<int>(n)); });
}

std::vector<std::string_view> arguments(std::string_view algorithm) {
  if (!algorithm.ends_with(')')) refuse(algorithm, "the closing parenthesis is missing");
  std::string_view list = algorithm.substr(kHierarchical.size(), algorithm.size() - kHierarchical.size() - 1);
  std::vector<std::string_view> names;
  for (;; list.remove_prefix(names.back().size() + 1)) {
    names.push_back(list.substr(0, list.find(',')));
    if (names.back().size() == list.size()) return names;
  }
}

AllGather all_gather_named(std::string_view algorithm, const Topology& topology) {
  if (!algorithm.starts_with(kHierarchical)) {
    const AllGatherRow& row = row_for(algorithm, algorithm);
    if (!row.takes(topology.size()))
      refuse(algorithm, "does not take " + std::to_string(topology.size()) + " ranks; bruck takes any number");
    return row.build;
  }
  const auto names = arguments(algorithm);
  if (topology.levels() == 0)
    refuse(algorithm, "the topology has one level only; describe another, as in topology='2x4'");
  if (static_cast<int>(names.size()) != topology.levels() + 1)
    refuse(algorithm, "needs " + std::to_string(topology.levels() + 1) + " names for topology " + topology.str() +
                          ", outermost level first");
  const auto sizes = topology.group_sizes();
  std::vector<AllGather> builds;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const AllGatherRow& row = row_for(names[k], algorithm);
    if (!takes_all(row, sizes[k]))
      refuse(algorithm, std::string(names[k]) + " does not take the group sizes of topology " + topology.str() +
                            "; bruck takes any number");
    builds.emplace_back(row.build);
  }
  const AllGather within = std::move(builds.back());
  builds.pop_back();
  return hierarchical(topology, std::move(builds), within);
}

}  // namespace

Plan make_plan(const Collective& collective, int rank, const Topology& topology, std::string_view algorithm) {
  if (topology.size() != collective.size)
    throw InternalError("plan: a topology of " + std::to_string(topology.size()) + " ranks for a collective of " +
                        std::to_string(collective.size));
  PlanBuilder plan(collective, rank);
  const Ranks ranks = topology.everyone();
  if (collective.kind == Kind::all_reduce) {
    if (const AllReduceRow* row = find(all_reduce_rows(), algorithm)) {
      row->build(plan, ranks, whole(0));
      return plan.finish(std::string(algorithm));
    }
  }
  PieceLists own;
  for (int r = 0; r < collective.size; ++r)
    own.push_back(collective.kind == Kind::all_reduce ? cut(whole(0), r, collective.size) : whole(r));
  const AllGather gather = all_gather_named(algorithm, topology);
  if (collective.reduces()) {
    reverse(plan, gather, ranks, own);
    plan.complete(own[rank]);
  }
  if (collective.kind != Kind::reduce_scatter) gather(plan, ranks, own);
  return plan.finish(std::string(algorithm));
}

std::vector<std::string> algorithms_for(Kind kind, const Topology& topology) {
  std::vector<std::string> names;
  if (kind == Kind::all_reduce)
    for (const AllReduceRow& row : all_reduce_rows()) names.emplace_back(row.name);
  for (const AllGatherRow& row : all_gather_rows())
    if (row.takes(topology.size()) && std::find(names.begin(), names.end(), row.name) == names.end())
      names.emplace_back(row.name);
  if (topology.levels() == 0) return names;

  std::vector<std::string> partial{std::string(kHierarchical)};
  for (const auto& sizes : topology.group_sizes()) {
    std::vector<std::string> longer;
    for (const std::string& prefix : partial)
      for (const AllGatherRow& row : all_gather_rows())
        if (takes_all(row, sizes)) longer.push_back(prefix + std::string(row.name) + ",");
    partial = std::move(longer);
  }
  for (std::string& name : partial) {
    name.back() = ')';
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace lanecast
