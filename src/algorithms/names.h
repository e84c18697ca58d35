// SPDX-License-Identifier: Apache-2.0
// From an algorithm's name to rows of the registry: one row, or one per level of "hierarchical(ACROSS,…,WITHIN)".
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "algorithms/registry.h"

namespace lanecast {

[[noreturn]] void refuse(std::string_view algorithm, const std::string& why);

/// The one name of a reproducible reduce-scatter or reduce: there, nothing is left to choose.
inline constexpr std::string_view kInRankOrder = "direct";

/// The names of its levels, outermost first. Throws UsageError where they are not as many as the topology has.
std::vector<std::string_view> names_of_levels(std::string_view algorithm, const Topology& topology);

template <class Row>
bool takes(const Row& row, std::size_t ranks) {
  if constexpr (requires { row.takes; })
    return row.takes(static_cast<int>(ranks));
  else
    return true;
}

template <class Row>
bool makes_a_level(const Row& row, const std::vector<std::size_t>& group_sizes) {
  if constexpr (requires { row.scatters; })
    if (row.scatters) return false;
  return std::ranges::all_of(group_sizes, [&](std::size_t ranks) { return takes(row, ranks); });
}

template <class Row>
const Row& row_named(std::span<const Row> rows, std::string_view name, std::string_view algorithm) {
  if (const Row* row = find(rows, name)) return *row;
  std::string known;
  for (const Row& row : rows) known += " " + std::string(row.name);
  known += ", hierarchical(ACROSS,…,WITHIN)";
  if constexpr (std::is_same_v<Row, AllGatherRow>) {
    known += "; and for an all_reduce, not within hierarchical:";
    for (const AllReduceRow& row : all_reduce_rows())
      if (!find(rows, row.name)) known += " " + std::string(row.name);
  }
  refuse(algorithm, "unknown name '" + std::string(name) + "'; known:" + known +
                        (find(all_reduce_rows(), name) ? " (this one is for all_reduce only)" : ""));
}

/// One row for a flat algorithm, else one per level. Throws UsageError for names and shapes that do not fit.
template <class Row>
std::vector<const Row*> rows_named(std::span<const Row> rows, std::string_view algorithm, const Topology& topology) {
  if (!is_hierarchical(algorithm)) {
    const Row& row = row_named(rows, algorithm, algorithm);
    if (!takes(row, static_cast<std::size_t>(topology.size())))
      refuse(algorithm, "does not take " + std::to_string(topology.size()) + " ranks; bruck takes any number");
    return {&row};
  }
  const auto names = names_of_levels(algorithm, topology);
  const auto sizes = topology.group_sizes();
  std::vector<const Row*> found;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const Row& row = row_named(rows, names[k], algorithm);
    if (!makes_a_level(row, sizes[k]))
      refuse(algorithm, std::string(names[k]) + " does not take the group sizes of topology " + topology.str() +
                            "; bruck takes any number");
    found.push_back(&row);
  }
  return found;
}

/// The rows that take so many ranks, then every combination of those that make a level of the topology.
template <class Row>
void append_names(std::span<const Row> rows, const Topology& topology, std::vector<std::string>& names) {
  for (const Row& row : rows)
    if (takes(row, static_cast<std::size_t>(topology.size())) && std::ranges::count(names, row.name) == 0)
      names.emplace_back(row.name);
  if (topology.levels() == 0) return;
  std::vector<std::string> partial{std::string(kHierarchical)};
  for (const auto& sizes : topology.group_sizes()) {
    std::vector<std::string> longer;
    for (const std::string& prefix : partial)
      for (const Row& row : rows)
        if (makes_a_level(row, sizes)) longer.push_back(prefix + std::string(row.name) + ",");
    partial = std::move(longer);
  }
  for (std::string& name : partial) {
    name.back() = ')';
    names.push_back(std::move(name));
  }
}

}  // namespace lanecast
