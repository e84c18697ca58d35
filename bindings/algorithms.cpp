// SPDX-License-Identifier: Apache-2.0
// The registry of algorithms as Python sees it: a table to print.
#include <nanobind/stl/string_view.h>

#include "algorithms/registry.h"
#include "base/error.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Kinds = std::vector<Kind>;

nb::list algorithm_rows(int ranks) {
  if (ranks < 1) throw UsageError("ranks: needs at least 1, got " + std::to_string(ranks));
  nb::list rows;
  const auto append = [&](const auto& row, bool takes, const Kinds& kinds) {
    nb::list names;
    for (const Kind kind : kinds) names.append(name_of(kind));
    const Cost cost = row.cost(ranks);
    nb::dict d;
    d["name"] = row.name;
    d["collectives"] = nb::tuple(names);
    d["source"] = row.source;
    d["takes"] = takes;
    d["rounds"] = cost.rounds;
    d["volume"] = cost.volume;
    rows.append(d);
  };
  for (const AllGatherRow& r : all_gather_rows()) {
    Kinds kinds{Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce};
    if (find(all_reduce_rows(), r.name)) kinds.pop_back();  // which has a form of its own
    append(r, r.takes(ranks), kinds);
  }
  for (const AllReduceRow& r : all_reduce_rows()) append(r, true, {Kind::all_reduce});
  for (const BroadcastRow& r : broadcast_rows()) append(r, true, {Kind::broadcast, Kind::reduce});
  for (const ScatterRow& r : scatter_rows()) append(r, true, {Kind::scatter, Kind::gather});
  for (const AllToAllRow& r : all_to_all_rows()) append(r, true, {Kind::all_to_all});
  return rows;
}

}  // namespace

void bind_algorithms(nb::module_& m) {
  m.def("algorithm_rows", &algorithm_rows, "ranks"_a,
        "The registry: dictionaries with name, collectives, source, takes (this many ranks?), rounds and volume (share "
        "of the full buffer that the busiest rank sends; an all-gather's, which is a reduce-scatter's and half an "
        "all-reduce's).");
}

}  // namespace lanecast
