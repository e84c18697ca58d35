// SPDX-License-Identifier: Apache-2.0
// The registry of algorithms as Python sees it: a table to print.
#include "algorithms/algorithms.h"

#include <nanobind/stl/string_view.h>

#include "base/error.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::dict row(std::string_view name, bool whole_vector, std::string_view source, bool takes) {
  nb::dict d;
  d["name"] = name;
  d["whole_vector"] = whole_vector;
  d["source"] = source;
  d["takes"] = takes;
  return d;
}

nb::list algorithm_rows(int ranks) {
  if (ranks < 1) throw UsageError("ranks: needs at least 1, got " + std::to_string(ranks));
  nb::list rows;
  const auto append = [&](nb::dict d, const Cost& cost) {
    d["rounds"] = cost.rounds;
    d["volume"] = cost.volume;
    rows.append(d);
  };
  for (const AllGatherRow& r : all_gather_rows()) append(row(r.name, false, r.source, r.takes(ranks)), r.cost(ranks));
  for (const AllReduceRow& r : all_reduce_rows()) append(row(r.name, true, r.source, true), r.cost(ranks));
  return rows;
}

}  // namespace

void bind_algorithms(nb::module_& m) {
  m.def("algorithm_rows", &algorithm_rows, "ranks"_a,
        "The registry: dictionaries with name, source, takes (this many ranks?), rounds, volume (share of the full "
        "buffer that the busiest rank sends) and whole_vector (all-reduces only; the others are all-gathers, which run "
        "reversed as a reduce-scatter and both ways as an all-reduce).");
}

}  // namespace lanecast
