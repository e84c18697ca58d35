// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

NicMap nic_map_from(const std::string& name) {
  if (name == "packed") return NicMap::packed;
  if (name == "round_robin") return NicMap::round_robin;
  if (name == "one_to_one") return NicMap::one_to_one;
  throw UsageError("nic_map '" + name + "': expected packed, round_robin or one_to_one");
}

Topology from_levels(int size, const std::vector<std::pair<std::string, std::vector<int>>>& levels) {
  std::vector<Level> list;
  for (const auto& [name, domain] : levels) list.push_back({name, domain});
  return {size, std::move(list)};
}

int parting_level(const Topology& topology, int a, int b) {
  for (const int rank : {a, b})
    if (rank < 0 || rank >= topology.size())
      throw UsageError("rank " + std::to_string(rank) + " does not exist among " + std::to_string(topology.size()));
  return topology.parting_level(a, b);
}

}  // namespace

void bind_topology(nb::module_& m) {
  nb::class_<Topology>(m, "Topology", "Which rank sits where: levels from the outermost inwards.")
      .def(nb::new_(&from_levels), "size"_a, "levels"_a = std::vector<std::pair<std::string, std::vector<int>>>{},
           "levels: [(name, domain of each rank), …], outermost first.")
      .def_static("parse", &Topology::parse, "text"_a, "size"_a,
                  "From text such as '2x4', '3+2+4' or '2x4:cyclic'. Raises UsageError unless it fits `size` ranks.")
      .def_static("from_hosts", &Topology::from_hosts, "hosts"_a, "Ranks with the same host string share a node.")
      .def_prop_ro("size", &Topology::size)
      .def_prop_ro("levels",
                   [](const Topology& t) {
                     std::vector<std::pair<std::string, std::vector<int>>> levels;
                     for (int k = 0; k < t.levels(); ++k) levels.emplace_back(t.level(k).name, t.level(k).domain);
                     return levels;
                   })
      .def("partition", &Topology::partition, "ranks"_a, "level"_a, "The ranks by their domains at a level.")
      .def("parting_level", &parting_level, "a"_a, "b"_a,
           "Number of the outermost level at which two ranks part; that of levels where they part at none.")
      .def("subset", &Topology::subset, "ranks"_a, "The topology as a subgroup sees it.")
      .def("__str__", &Topology::str)
      .def("__repr__", [](const Topology& t) { return "Topology('" + t.str() + "')"; });
  m.def(
      "assign_nics",
      [](int ranks, int nics, const std::string& map) { return assign_nics(ranks, nics, nic_map_from(map)); },
      "ranks"_a, "nics"_a, "nic_map"_a, "NIC of each rank of a node.");
  m.def("nic_balance", &nic_balance, "nic_of_rank"_a, "nics"_a, "Usable share of the node's NIC bandwidth.");
}

}  // namespace lanecast
