// SPDX-License-Identifier: Apache-2.0
// Plans as Python sees them: opaque objects with a plain dictionary as the way in and out (JSON, pictures, mutants).
#include "plan/plan.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "algorithms/algorithms.h"
#include "base/error.h"
#include "bindings.h"
#include "plan/verify.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

constexpr std::string_view kGroupKinds[] = {"all_gather", "reduce_scatter", "all_reduce"};

Kind kind_named(std::string_view name) {
  if (const auto kind = kind_from(name)) return *kind;
  throw UsageError("collective '" + std::string(name) + "': expected all_gather, reduce_scatter or all_reduce");
}

nb::tuple pack(Fraction f) { return nb::make_tuple(f.num, f.den); }
nb::tuple pack(const Piece& p) { return nb::make_tuple(p.part, pack(p.lo), pack(p.hi)); }
nb::tuple pack(const Block& b) { return nb::make_tuple(b.space, b.part, pack(b.lo), pack(b.hi)); }

template <class Items>
nb::list pack_all(const Items& items) {
  nb::list list;
  for (const auto& item : items) list.append(pack(item));
  return list;
}

Fraction fraction(nb::handle h) { return {nb::cast<std::int32_t>(h[0]), nb::cast<std::int32_t>(h[1])}; }
Piece piece(nb::handle h) { return {nb::cast<std::int32_t>(h[0]), fraction(h[1]), fraction(h[2])}; }
Block block(nb::handle h) {
  return {nb::cast<std::int32_t>(h[0]), nb::cast<std::int32_t>(h[1]), fraction(h[2]), fraction(h[3])};
}

nb::dict to_dict(const Plan& plan) {
  nb::dict d;
  d["collective"] = name_of(plan.collective.kind);
  d["size"] = plan.collective.size;
  d["in_place"] = plan.collective.in_place;
  d["rank"] = plan.rank;
  d["algorithm"] = plan.algorithm;
  d["slots"] = plan.slots;
  nb::list regions, groups, steps;
  for (const Region& r : plan.regions) regions.append(nb::make_tuple(r.part, pack(r.lo), pack(r.hi), r.slot));
  for (const Group& g : plan.groups) {
    nb::dict group;
    nb::list own;
    for (const Pieces& pieces : g.own) own.append(pack_all(pieces));
    group["kind"] = kGroupKinds[static_cast<int>(g.kind)];
    group["ranks"] = g.ranks;
    group["own"] = own;
    groups.append(group);
  }
  for (const Step& s : plan.steps) {
    nb::dict step;
    step["kind"] = name_of(s.kind);
    step["peer"] = s.peer;
    step["group"] = s.group;
    step["ordinal"] = s.ordinal;
    step["sources"] = s.sources;
    step["completes"] = s.completes;
    step["src"] = pack_all(plan.src(s));
    step["dst"] = pack_all(plan.dst(s));
    nb::list deps;
    for (std::uint32_t dep : plan.deps(s)) deps.append(dep);
    step["deps"] = deps;
    steps.append(step);
  }
  d["regions"] = regions;
  d["groups"] = groups;
  d["steps"] = steps;
  return d;
}

StepKind step_kind(const std::string& name) {
  for (int k = 0; k < 6; ++k)
    if (name_of(static_cast<StepKind>(k)) == name) return static_cast<StepKind>(k);
  throw UsageError("plan: unknown step kind '" + name + "'");
}

Plan from_dict(const nb::dict& d) {
  Plan plan;
  plan.collective = {kind_named(nb::cast<std::string>(d["collective"])), nb::cast<int>(d["size"]),
                     nb::cast<bool>(d["in_place"])};
  plan.rank = nb::cast<int>(d["rank"]);
  plan.algorithm = nb::cast<std::string>(d["algorithm"]);
  plan.slots = nb::cast<std::int32_t>(d["slots"]);
  for (nb::handle r : nb::borrow<nb::list>(d["regions"]))
    plan.regions.push_back({nb::cast<std::int32_t>(r[0]), fraction(r[1]), fraction(r[2]), nb::cast<std::int32_t>(r[3])});
  for (nb::handle g : nb::borrow<nb::list>(d["groups"])) {
    Group group;
    const auto kind = nb::cast<std::string>(g["kind"]);
    for (int k = 0; k < 3; ++k)
      if (kGroupKinds[k] == kind) group.kind = static_cast<GroupKind>(k);
    group.ranks = nb::cast<std::vector<int>>(g["ranks"]);
    for (nb::handle list : g["own"]) {
      auto& pieces = group.own.emplace_back();
      for (nb::handle p : list) pieces.push_back(piece(p));
    }
    plan.groups.push_back(std::move(group));
  }
  for (nb::handle s : nb::borrow<nb::list>(d["steps"])) {
    Step step;
    step.kind = step_kind(nb::cast<std::string>(s["kind"]));
    step.peer = nb::cast<std::int32_t>(s["peer"]);
    step.group = nb::cast<std::int32_t>(s["group"]);
    step.ordinal = nb::cast<std::uint32_t>(s["ordinal"]);
    step.sources = nb::cast<std::uint32_t>(s["sources"]);
    step.completes = nb::cast<bool>(s["completes"]);
    const auto append = [&](nb::handle blocks) {
      Range range{static_cast<std::uint32_t>(plan.blocks.size()), 0};
      for (nb::handle b : blocks) plan.blocks.push_back(block(b));
      range.count = static_cast<std::uint32_t>(plan.blocks.size()) - range.first;
      return range;
    };
    step.src = append(s["src"]);
    step.dst = append(s["dst"]);
    step.deps.first = static_cast<std::uint32_t>(plan.dependencies.size());
    for (nb::handle dep : s["deps"]) plan.dependencies.push_back(nb::cast<std::uint32_t>(dep));
    step.deps.count = static_cast<std::uint32_t>(plan.dependencies.size()) - step.deps.first;
    plan.steps.push_back(step);
  }
  return plan;
}

nb::dict prove(const std::vector<const Plan*>& list) {
  std::vector<Plan> plans;
  for (const Plan* plan : list) plans.push_back(*plan);
  const Proof proof = verify(plans);
  nb::dict d;
  d["messages"] = proof.messages;
  d["min_window"] = proof.min_window;
  return d;
}

std::vector<Plan> make_plans(std::string_view collective, const Topology& topology, std::string_view algorithm,
                             bool in_place) {
  const Collective what{kind_named(collective), topology.size(), in_place};
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
      .def_prop_ro("algorithm", [](const Plan& p) { return p.algorithm; })
      .def_prop_ro("slots", [](const Plan& p) { return p.slots; }, "Scratch slots; each holds one region at a time.")
      .def("__len__", [](const Plan& p) { return p.steps.size(); })
      .def("__str__", [](const Plan& p) { return describe(p); })
      .def("describe", [](const Plan& p, std::size_t step) {
        if (step >= p.steps.size()) throw nb::index_error();
        return describe(p, step);
      }, "step"_a)
      .def("to_dict", &to_dict, "Plain lists and numbers, fit for JSON. Blocks are (space, part, lo, hi) with fractions "
                                "(numerator, denominator); space 0 is the input, 1 the output, 2 + k scratch region k.")
      .def_static("from_dict", &from_dict, "plan"_a);

  m.def(
      "make_plan",
      [](std::string_view collective, int rank, const Topology& topology, std::string_view algorithm, bool in_place) {
        if (rank < 0 || rank >= topology.size())
          throw UsageError("rank " + std::to_string(rank) + " does not exist among " + std::to_string(topology.size()));
        return make_plan({kind_named(collective), topology.size(), in_place}, rank, topology, algorithm);
      },
      "collective"_a, "rank"_a, "topology"_a, "algorithm"_a, "in_place"_a = false, "One rank's plan.");
  m.def("make_plans", &make_plans, "collective"_a, "topology"_a, "algorithm"_a, "in_place"_a = false,
        "The plans of all ranks.");
  m.def("verify", &prove, "plans"_a,
        "Prove the plans of all ranks, in rank order; raises PlanError with rank, step and reason. Returns the number of "
        "messages and min_window, the smallest number of unfinished steps that an executor must look at.");
  m.def(
      "verify_all_ranks",
      [](std::string_view collective, const Topology& topology, std::string_view algorithm, bool in_place) {
        std::vector<Plan> plans;
        {
          nb::gil_scoped_release release;
          plans = make_plans(collective, topology, algorithm, in_place);
          const Proof proof = verify(plans);
          nb::gil_scoped_acquire acquire;
          nb::dict d;
          d["messages"] = proof.messages;
          d["min_window"] = proof.min_window;
          return d;
        }
      },
      "collective"_a, "topology"_a, "algorithm"_a, "in_place"_a = false, "make_plans and verify without the way through Python.");
  m.def(
      "algorithms_for",
      [](std::string_view collective, const Topology& topology) { return algorithms_for(kind_named(collective), topology); },
      "collective"_a, "topology"_a, "Every algorithm that make_plan takes for this collective and topology.");
}

}  // namespace lanecast
