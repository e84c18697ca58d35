// SPDX-License-Identifier: Apache-2.0
#include "algorithms/names.h"

#include <algorithm>

namespace lanecast {
namespace {

std::vector<std::string_view> arguments(std::string_view algorithm) {
  if (!algorithm.ends_with(')')) refuse(algorithm, "the closing parenthesis is missing");
  std::string_view list = algorithm.substr(kHierarchical.size(), algorithm.size() - kHierarchical.size() - 1);
  std::vector<std::string_view> names;
  for (;; list.remove_prefix(names.back().size() + 1)) {
    names.push_back(list.substr(0, list.find(',')));
    if (names.back().size() == list.size()) return names;
  }
}

}  // namespace

void refuse(std::string_view algorithm, const std::string& why) {
  throw UsageError("algorithm '" + std::string(algorithm) + "': " + why);
}

std::vector<std::string_view> names_of_levels(std::string_view algorithm, const Topology& topology) {
  auto names = arguments(algorithm);
  if (topology.levels() == 0)
    refuse(algorithm, "the topology has one level only; describe another, as in topology='2x4'");
  if (static_cast<int>(names.size()) != topology.levels() + 1)
    refuse(algorithm, "needs " + std::to_string(topology.levels() + 1) + " names for topology " + topology.str() +
                          ", outermost level first");
  return names;
}

std::vector<std::string> algorithms_for(Kind kind, const Topology& topology, bool reproducible) {
  if (reproducible && (kind == Kind::reduce_scatter || kind == Kind::reduce)) return {std::string(kInRankOrder)};
  std::vector<std::string> names;
  switch (kind) {
    case Kind::all_reduce:
      for (const AllReduceRow& row : all_reduce_rows()) names.emplace_back(row.name);
      append_names(all_gather_rows(), topology, names);
      if (reproducible)
        std::erase_if(names, [](const std::string& name) {
          const AllReduceRow* row = find(all_reduce_rows(), name);
          return row && !row->reproducible;
        });
      break;
    case Kind::all_gather:
    case Kind::reduce_scatter:
      append_names(all_gather_rows(), topology, names);
      break;
    case Kind::broadcast:
    case Kind::reduce:
      append_names(broadcast_rows(), topology, names);
      break;
    case Kind::gather:
    case Kind::scatter:
      append_names(scatter_rows(), topology, names);
      break;
    case Kind::all_to_all:
      append_names(all_to_all_rows(), topology, names);
      break;
    case Kind::composition:  // is lowered
      break;
  }
  return names;
}

bool has_algorithm(Kind kind, const Topology& topology, std::string_view algorithm) {
  return std::ranges::count(algorithms_for(kind, topology), algorithm) > 0;
}

bool any_has_algorithm(const Topology& topology, std::string_view algorithm) {
  return std::ranges::any_of(kAllKinds, [&](Kind kind) { return has_algorithm(kind, topology, algorithm); });
}

}  // namespace lanecast
