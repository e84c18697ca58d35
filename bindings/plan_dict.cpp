// SPDX-License-Identifier: Apache-2.0
#include "plan_dict.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"

namespace nb = nanobind;

namespace lanecast {
namespace {

nb::tuple pack(Fraction f) { return nb::make_tuple(f.num, f.den); }
nb::tuple pack(const Piece& p) { return nb::make_tuple(p.part, pack(p.lo), pack(p.hi)); }
nb::tuple pack(const Block& b) { return nb::make_tuple(b.space, b.part, pack(b.lo), pack(b.hi)); }

nb::object op_name(std::int8_t op) {
  return op == kOpOfCall ? nb::none() : nb::object(nb::cast(name_of(static_cast<ReduceOp>(op))));
}

template <class Items>
nb::list pack_all(const Items& items) {
  nb::list list;
  for (const auto& item : items) list.append(pack(item));
  return list;
}

Fraction fraction(nb::handle h) {
  const auto num = nb::cast<std::int32_t>(h[0]), den = nb::cast<std::int32_t>(h[1]);
  if (den < 1) throw UsageError("plan: a fraction's denominator is " + std::to_string(den));
  return Fraction::of(num, den);
}
Piece piece(nb::handle h) { return {nb::cast<std::int32_t>(h[0]), fraction(h[1]), fraction(h[2])}; }
Block block(nb::handle h) {
  return {nb::cast<std::int32_t>(h[0]), nb::cast<std::int32_t>(h[1]), fraction(h[2]), fraction(h[3])};
}

StepKind step_kind(const std::string& name) {
  for (int k = 0; k < 6; ++k)
    if (name_of(static_cast<StepKind>(k)) == name) return static_cast<StepKind>(k);
  throw UsageError("plan: unknown step kind '" + name + "'");
}

Kind group_kind(const std::string& name) {
  if (const auto kind = kind_from(name)) return *kind;
  throw UsageError("plan: unknown group kind '" + name + "'");
}

std::int8_t op_named(nb::handle name) {
  if (name.is_none()) return kOpOfCall;
  if (const auto op = op_from(nb::cast<std::string>(name))) return static_cast<std::int8_t>(*op);
  throw UsageError("op '" + nb::cast<std::string>(name) + "' is unknown");
}

Composition read_composition(nb::handle d) {
  const auto parts = [&](const char* name) { return nb::cast<std::vector<Composition::Parts>>(d[name]); };
  Composition composition(parts("inputs"), parts("outputs"));
  std::int32_t step = 0;
  for (nb::handle p : nb::object(d["primitives"])) {
    for (; step < nb::cast<std::int32_t>(p["step"]); ++step) composition.fence();
    const Pieces pieces = pieces_from(p["pieces"]);
    const auto leaves = nb::cast<std::vector<int>>(p["leaves"]);
    const int root = nb::cast<int>(p["root"]);
    if (p["op"].is_none())
      composition.multicast(root, leaves, pieces);
    else
      composition.reduce(leaves, root, pieces, static_cast<ReduceOp>(op_named(p["op"])));
  }
  return composition;
}

Group read_group(nb::handle g) {
  Group group{group_kind(nb::cast<std::string>(g["kind"])),
              nb::cast<std::vector<int>>(g["ranks"]),
              {},
              nb::cast<int>(g["root"])};
  for (nb::handle list : g["own"]) group.own.push_back(pieces_from(list));
  return group;
}

void read_step(Plan& plan, nb::handle s) {
  Step& step = plan.steps.emplace_back();
  step.kind = step_kind(nb::cast<std::string>(s["kind"]));
  step.peer = nb::cast<std::int32_t>(s["peer"]);
  step.group = nb::cast<std::int32_t>(s["group"]);
  step.ordinal = nb::cast<std::uint32_t>(s["ordinal"]);
  step.sources = nb::cast<std::uint32_t>(s["sources"]);
  step.completes = nb::cast<bool>(s["completes"]);
  if (nb::cast<bool>(s.attr("__contains__")("stage"))) {
    step.stage = nb::cast<std::int32_t>(s["stage"]);
    step.op = op_named(s["op"]);
    step.divisor = nb::cast<std::uint32_t>(s["divisor"]);
  }
  const auto append = [](auto& all, nb::handle list, auto read) {
    const auto first = static_cast<std::uint32_t>(all.size());
    for (nb::handle item : list) all.push_back(read(item));
    return Range{first, static_cast<std::uint32_t>(all.size()) - first};
  };
  step.src = append(plan.blocks, s["src"], block);
  step.dst = append(plan.blocks, s["dst"], block);
  step.deps = append(plan.dependencies, s["deps"], [](nb::handle d) { return nb::cast<std::uint32_t>(d); });
}

Plan read_plan(const nb::dict& d) {
  Plan plan;
  const auto name = nb::cast<std::string>(d["collective"]);
  plan.collective = {name == name_of(Kind::composition) ? Kind::composition : kind_named(name),
                     nb::cast<int>(d["size"]), nb::cast<bool>(d["in_place"]), nb::cast<int>(d["root"]),
                     d.contains("reproducible") && nb::cast<bool>(d["reproducible"])};
  if (plan.collective.kind == Kind::composition)
    plan.collective.composition = std::make_shared<const Composition>(read_composition(d["composition"]));
  plan.rank = nb::cast<int>(d["rank"]);
  plan.algorithm = nb::cast<std::string>(d["algorithm"]);
  plan.slots = nb::cast<std::int32_t>(d["slots"]);
  for (nb::handle r : nb::object(d["regions"]))
    plan.regions.push_back(
        {nb::cast<std::int32_t>(r[0]), fraction(r[1]), fraction(r[2]), nb::cast<std::int32_t>(r[3])});
  for (nb::handle g : nb::object(d["groups"])) plan.groups.push_back(read_group(g));
  for (nb::handle s : nb::object(d["steps"])) read_step(plan, s);
  return plan;
}

}  // namespace

Pieces pieces_from(nb::handle list) {
  Pieces pieces;
  for (nb::handle p : list) pieces.push_back(piece(p));
  return pieces;
}

Kind kind_named(std::string_view name) {
  if (const auto kind = kind_from(name)) return *kind;
  std::string known;
  for (const Kind kind : kAllKinds) known += " " + std::string(name_of(kind));
  throw UsageError("collective '" + std::string(name) + "' is unknown; known:" + known);
}

std::vector<std::int32_t> listed(PartRange parts) {
  std::vector<std::int32_t> numbers;
  for (std::int32_t k = 0; k < parts.count; ++k) numbers.push_back(parts[k]);
  return numbers;
}

PlanDict to_dict(const Composition& composition) {
  PlanDict d;
  nb::list inputs, outputs;
  for (int r = 0; r < composition.size(); ++r) {
    inputs.append(listed(composition.inputs(r)));
    outputs.append(listed(composition.outputs(r)));
  }
  d["inputs"] = inputs;
  d["outputs"] = outputs;
  nb::list primitives;
  for (const Primitive& p : composition.primitives()) {
    nb::dict one;
    one["step"] = p.step;
    one["root"] = p.root;
    const auto leaves = composition.leaves(p);
    one["leaves"] = std::vector<int>(leaves.begin(), leaves.end());
    one["pieces"] = pack_all(composition.pieces(p));
    one["op"] = op_name(p.kind == Primitive::Action::reduce ? static_cast<std::int8_t>(p.op) : kOpOfCall);
    primitives.append(one);
  }
  d["primitives"] = primitives;
  return d;
}

PlanDict to_dict(const Plan& plan) {
  PlanDict d;
  d["collective"] = name_of(plan.collective.kind);
  d["size"] = plan.collective.size;
  d["in_place"] = plan.collective.in_place;
  d["root"] = plan.collective.root;
  d["reproducible"] = plan.collective.reproducible;
  if (plan.collective.composition) d["composition"] = to_dict(*plan.collective.composition);
  d["rank"] = plan.rank;
  d["algorithm"] = plan.algorithm;
  d["slots"] = plan.slots;
  nb::list regions, groups, steps;
  for (const Region& r : plan.regions) regions.append(nb::make_tuple(r.part, pack(r.lo), pack(r.hi), r.slot));
  for (const Group& g : plan.groups) {
    nb::dict group;
    nb::list own;
    for (const Pieces& pieces : g.own) own.append(pack_all(pieces));
    group["kind"] = name_of(g.kind);
    group["ranks"] = g.ranks;
    group["own"] = own;
    group["root"] = g.root;
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
    if (s.stage >= 0) {
      step["stage"] = s.stage;
      step["op"] = op_name(s.op);
      step["divisor"] = s.divisor;
    }
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

ProofDict to_dict(const Proof& proof) {
  ProofDict d;
  d["messages"] = proof.messages;
  d["min_window"] = proof.min_window;
  return d;
}

Plan from_dict(const PlanDict& dict) {
  try {
    return read_plan(dict);
  } catch (const nb::python_error& error) {
    throw UsageError(std::string("plan: an entry is missing or of the wrong form: ") + error.what());
  } catch (const std::bad_cast&) {
    throw UsageError("plan: an entry is of the wrong type; expected what Plan.to_dict gives");
  }
}

}  // namespace lanecast
