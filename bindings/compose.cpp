// SPDX-License-Identifier: Apache-2.0
// Compositions, and the plans that they become on a machine.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "bindings.h"
#include "compose/lower.h"
#include "compose/refine.h"
#include "gil.h"
#include "plan/verify.h"
#include "plan_dict.h"
#include "runtime/communicator/compiling.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

std::vector<Plan> lower_all(const Composition& composition, const Machine& machine, bool in_place) {
  const auto shared = std::make_shared<const Composition>(composition);
  std::vector<Plan> plans;
  for (int r = 0; r < composition.size(); ++r) plans.push_back(lower(shared, r, machine, in_place));
  return plans;
}

Plan lower_one(const Composition& composition, int rank, const Machine& machine, bool in_place) {
  if (rank < 0 || rank >= composition.size())
    throw UsageError("rank " + std::to_string(rank) + " does not exist among " + std::to_string(composition.size()));
  return lower(std::make_shared<const Composition>(composition), rank, machine, in_place);
}

/// As a call cuts its parts, which are then of so many elements.
std::pair<Composition, std::vector<std::size_t>> refined(const Composition& composition,
                                                         std::vector<std::size_t> counts) {
  const auto parts = static_cast<std::size_t>(composition.parts());
  if (counts.size() == 1) counts.assign(parts, counts[0]);
  if (counts.size() != parts)
    throw UsageError("counts: needs one number, or one per part (" + std::to_string(parts) + "), got " +
                     std::to_string(counts.size()));
  const Refined fine = refine(std::make_shared<const Composition>(composition));
  return {*fine.composition, fine.counts(counts)};
}

void bind_composition(nb::module_& m) {
  nb::class_<Composition>(m, "Composition", "What must move and what must be added, in steps.")
      .def(nb::init<const std::vector<Composition::Parts>&, const std::vector<Composition::Parts>&>(), "inputs"_a,
           "outputs"_a)
      .def_static(
          "of",
          [](std::string_view collective, int size, int root) {
            return Composition(Collective{kind_named(collective), size, false, root, false, nullptr});
          },
          "collective"_a, "size"_a, "root"_a = 0)
      .def(
          "multicast",
          [](Composition& c, int root, const std::vector<int>& leaves, const nb::list& pieces) {
            c.multicast(root, leaves, pieces_from(pieces));
          },
          "root"_a, "leaves"_a, "pieces"_a)
      .def(
          "reduce",
          [](Composition& c, const std::vector<int>& leaves, int root, const nb::list& pieces, int op) {
            c.reduce(leaves, root, pieces_from(pieces), static_cast<ReduceOp>(op));
          },
          "leaves"_a, "root"_a, "pieces"_a, "op"_a)
      .def("fence", &Composition::fence)
      .def_prop_ro("size", &Composition::size)
      .def_prop_ro("parts", &Composition::parts)
      .def_prop_ro("steps", &Composition::steps)
      .def_prop_ro("digest", &Composition::digest)
      .def(
          "inputs", [](const Composition& c, int rank) { return listed(c.inputs(rank)); }, "rank"_a)
      .def(
          "outputs", [](const Composition& c, int rank) { return listed(c.outputs(rank)); }, "rank"_a)
      .def("__len__", [](const Composition& c) { return c.primitives().size(); })
      .def(
          "describe",
          [](const Composition& c, std::size_t primitive) {
            if (primitive >= c.primitives().size()) throw nb::index_error();
            return describe(c, c.primitives()[primitive]);
          },
          "primitive"_a)
      .def("to_dict", nb::overload_cast<const Composition&>(&to_dict));
}

void bind_machine(nb::module_& m) {
  nb::class_<Machine>(m, "Machine", "The shape that compositions are lowered to.")
      .def(
          "__init__",
          [](Machine* self, const Topology& real, const std::vector<int>& factors,
             const std::optional<Topology>& hierarchy, int stripe,
             int ring) { new (self) Machine(real, Shaping{factors, hierarchy, stripe, ring}); },
          "real"_a, "factors"_a = std::vector<int>{}, "hierarchy"_a = nb::none(), "stripe"_a = 0, "ring"_a = 0,
          "real: where the ranks sit. factors, or a hierarchy of any shape, else the real one. stripe 0: all of a "
          "node.")
      .def_prop_ro("stages", &Machine::stages, "Of a step, at most.")
      .def_prop_ro(
          "topology", [](const Machine& machine) { return machine.topology; }, "The hierarchy, real or virtual.")
      .def("__str__", &Machine::str);
}

}  // namespace

void bind_compose(nb::module_& m) {
  bind_composition(m);
  bind_machine(m);
  m.def("lower", &lower_one, "composition"_a, "rank"_a, "machine"_a, "in_place"_a = false, "One rank's plan.");
  m.def("lower_all", &lower_all, "composition"_a, "machine"_a, "in_place"_a = false, "The plans of all ranks.");
  m.def(
      "refined", &refined, "composition"_a, "counts"_a,
      "The composition as a call cuts it before it is lowered, where pieces of a part end differently, and the counts "
      "of its parts. counts: elements of each part, or one number for all.");
  m.def(
      "ring_on_gpus",
      [](const Composition& composition, std::vector<std::size_t> counts, std::string_view dtype,
         const Topology& real) {
        const auto type = dtype_from(dtype);
        if (!type) throw UsageError("dtype: '" + std::string(dtype) + "' is unknown");
        for (std::size_t& count : counts) count *= size_of(*type);
        return ring_of_own_links(std::make_shared<const Composition>(composition), counts, real,
                                 link_of(kUnknownGpu.times));
      },
      "composition"_a, "counts"_a, "dtype"_a, "topology"_a,
      "The ring that a call takes among the GPUs of one host where none is named. counts: of each part, as refined() "
      "has them.");
  m.def(
      "verify_composition",
      [](const Composition& composition, const Machine& machine, bool in_place) {
        Proof proof;
        {
          const WithoutGil release;
          proof = verify(lower_all(composition, machine, in_place));
        }
        return to_dict(proof);
      },
      "composition"_a, "machine"_a, "in_place"_a = false, "lower_all and verify without the way through Python.");
}

}  // namespace lanecast
