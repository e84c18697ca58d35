// SPDX-License-Identifier: Apache-2.0
// Plans as Python sees them: opaque objects that are made, proven and printed.
#include "plan/plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "algorithms/algorithms.h"
#include "algorithms/registry.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "plan/own_share_first.h"
#include "plan/verify.h"
#include "plan_dict.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

ProofDict prove(const std::vector<const Plan*>& list) {
  std::vector<Plan> plans;
  for (const Plan* plan : list) plans.push_back(*plan);
  return to_dict(verify(plans));
}

std::vector<Plan> make_plans(std::string_view collective, const Topology& topology, std::string_view algorithm,
                             bool in_place, int root, bool reproducible) {
  const Collective what{kind_named(collective), topology.size(), in_place, root, reproducible};
  std::vector<Plan> plans;
  for (int r = 0; r < topology.size(); ++r) plans.push_back(make_plan(what, r, topology, algorithm));
  return plans;
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "What one rank does in a collective, as data.")
      .def_prop_ro("rank", [](const Plan& p) { return p.rank; })
      .def_prop_ro("size", [](const Plan& p) { return p.collective.size; })
      .def_prop_ro("collective", [](const Plan& p) { return name_of(p.collective.kind); })
      .def_prop_ro(
          "root", [](const Plan& p) { return p.collective.root; }, "Of those that have one; else 0.")
      .def_prop_ro("algorithm", [](const Plan& p) { return p.algorithm; })
      .def_prop_ro(
          "slots", [](const Plan& p) { return p.slots; }, "Scratch slots; each holds one region at a time.")
      .def("__len__", [](const Plan& p) { return p.steps.size(); })
      .def("__str__", [](const Plan& p) { return describe(p); })
      .def(
          "describe",
          [](const Plan& p, std::size_t step) {
            if (step >= p.steps.size()) throw nb::index_error();
            return describe(p, step);
          },
          "step"_a)
      .def("to_dict", nb::overload_cast<const Plan&>(&to_dict),
           "Plain lists and numbers, fit for JSON. Blocks are (space, part, lo, hi) with fractions "
           "(numerator, denominator); space 0 is the input, 1 the output, 2 + k scratch region k.")
      .def_static("from_dict", &from_dict, "plan"_a,
                  "The plan that to_dict described; verify() says whether it is right.");

  m.def(
      "make_plan",
      [](std::string_view collective, int rank, const Topology& topology, std::string_view algorithm, bool in_place,
         int root, bool reproducible) {
        if (rank < 0 || rank >= topology.size())
          throw UsageError("rank " + std::to_string(rank) + " does not exist among " + std::to_string(topology.size()));
        return make_plan({kind_named(collective), topology.size(), in_place, root, reproducible}, rank, topology,
                         algorithm);
      },
      "collective"_a, "rank"_a, "topology"_a, "algorithm"_a, "in_place"_a = false, "root"_a = 0,
      "reproducible"_a = false, "One rank's plan.");
  m.def("make_plans", &make_plans, "collective"_a, "topology"_a, "algorithm"_a, "in_place"_a = false, "root"_a = 0,
        "reproducible"_a = false, "The plans of all ranks.");
  m.def("own_share_first", &own_share_first, "plan"_a,
        "The plan with the rank's own share copied first and sent from the output; None where it has none to send.");
  m.def(
      "verify", &prove, "plans"_a,
      "Prove the plans of all ranks, in rank order; raises PlanError with rank, step and reason. Returns the number of "
      "messages and min_window, the smallest number of unfinished steps that an executor must look at.");
  m.def(
      "verify_all_ranks",
      [](std::string_view collective, const Topology& topology, std::string_view algorithm, bool in_place, int root,
         bool reproducible) {
        Proof proof;
        {
          const WithoutGil release;
          proof = verify(make_plans(collective, topology, algorithm, in_place, root, reproducible));
        }
        return to_dict(proof);
      },
      "collective"_a, "topology"_a, "algorithm"_a, "in_place"_a = false, "root"_a = 0, "reproducible"_a = false,
      "make_plans and verify without the way through Python.");
  m.def(
      "may_be_in_place", [](std::string_view collective) { return may_be_in_place(kind_named(collective)); },
      "collective"_a, "May input and output share memory?");
  m.def(
      "has_root", [](std::string_view collective) { return has_root(kind_named(collective)); }, "collective"_a,
      "Does one rank alone bring, or end with, the data?");
  m.def(
      "algorithms_for",
      [](std::string_view collective, const Topology& topology, bool reproducible) {
        return algorithms_for(kind_named(collective), topology, reproducible);
      },
      "collective"_a, "topology"_a, "reproducible"_a = false,
      "Every algorithm that make_plan takes for this collective and topology.");
  m.def("has_library", &has_library, "algorithm"_a,
        "Is it a library's own collective, or a level of it one: mpi, nccl or peers?");
}

}  // namespace lanecast
