// SPDX-License-Identifier: Apache-2.0
// Programs as Python sees them: made from plans and a shape, checked, shown and exported.
#include "program/program.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "bindings.h"
#include "plan_dict.h"
#include "program_dict.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/request/call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::dict to_dict(const gpu::Operand& o) {
  nb::dict d;
  d["space"] = o.space == gpu::Space::in ? "in" : o.space == gpu::Space::out ? "out" : "scratch";
  d["base"] = o.base;
  d["bytes"] = o.bytes;
  d["stride"] = o.stride;
  d["from"] = o.from;
  d["to"] = o.to;
  d["den"] = o.den;
  d["slot_from"] = o.slot_from;
  return d;
}

nb::dict to_dict(const Program& program, const gpu::Instruction& what) {
  nb::dict d;
  d["operation"] = name_of(what.operation);
  d["peer"] = talks(what) ? nb::cast(program.peer_of(what)) : nb::none();
  d["carried"] = what.carried ? nb::cast(what.carried - 1) : nb::none();
  d["ends"] = what.ends != 0;
  d["delay"] = what.delay;
  d["needs"] = what.needs;
  d["needs_back"] = what.needs_back;
  d["writes_scratch"] = what.writes_scratch != 0;
  d["step"] = what.step;
  d["op"] = name_of(static_cast<ReduceOp>(what.op));
  d["divisor"] = what.divisor;
  nb::list runs;
  const std::size_t each = operands_of(what);
  for (std::size_t r = 0; r < what.runs; ++r) {
    nb::list run;
    for (std::size_t k = 0; k < each; ++k) run.append(to_dict(program.operands[what.operands + r * each + k]));
    runs.append(run);
  }
  d["runs"] = runs;
  return d;
}

PlanDict to_dict(const Program& program) {
  nb::dict d;
  d["lanes"] = program.slicing.lanes;
  d["chunks"] = program.slicing.chunks;
  d["delays"] = program.delays;
  d["generations"] = program.generations;
  d["scratch_bytes"] = program.scratch_bytes;
  d["longest_message"] = program.longest_message;
  for (const auto& [name, queue] : {std::pair("puts", &program.puts), std::pair("takes", &program.takes)}) {
    nb::list list;
    for (const gpu::Instruction& what : *queue) list.append(to_dict(program, what));
    d[name] = list;
  }
  nb::list carried;
  for (const Carried& one : program.carried) {
    nb::dict message;
    message["place"] = one.memory.place;
    message["lane_bytes"] = one.memory.lane_bytes;
    message["slots"] = one.memory.slots;
    message["on_host"] = one.memory.on_host != 0;
    message["ordinal"] = one.ordinal;
    carried.append(message);
  }
  d["carried"] = carried;
  return PlanDict(d);
}

/// Throws UsageError for what fits no call of this plan.
Shape shape_of(const Plan& plan, const std::vector<std::size_t>& counts, std::string_view dtype, std::string_view op) {
  const auto type = dtype_from(dtype);
  const auto sum = op_from(op);
  if (!type || !sum)
    throw UsageError("program: there is no dtype '" + std::string(dtype) + "' or no op '" + std::string(op) + "'");
  const auto parts = static_cast<std::size_t>(plan.collective.parts());
  if (counts.size() != 1 && counts.size() != parts)
    throw UsageError("program: counts: needs one number, or one per part (" + std::to_string(parts) + "), got " +
                     std::to_string(counts.size()));
  // Keeps every sum of counts, and every offset in bytes, within 64 bits.
  const std::size_t most = SIZE_MAX / size_of(*type) / std::max(parts, std::size_t{1}) / 2;
  if (std::ranges::any_of(counts, [&](std::size_t count) { return count > most; }))
    throw UsageError("program: counts: larger than any memory");
  Shape shape;
  shape.dtype = *type;
  shape.op = *sum;
  if (counts.size() == 1)
    shape.count = counts[0];
  else
    shape.counts = counts;
  return shape;
}

/// least: chunks of a lane.
void check(Slicing slicing, int least) {
  if (slicing.lanes < 1 || slicing.lanes > gpu::kMostLanes)
    throw UsageError("program: lanes: " + std::to_string(slicing.lanes) + " is not from 1 to " +
                     std::to_string(gpu::kMostLanes));
  if (slicing.chunks < least || slicing.chunks > kMostChunks)
    throw UsageError("program: chunks: " + std::to_string(slicing.chunks) + " is not from " + std::to_string(least) +
                     " to " + std::to_string(kMostChunks));
}

Program bound(const Plan& plan, const std::vector<std::size_t>& counts, std::string_view dtype, std::string_view op,
              int lanes, int chunks) {
  check({lanes, chunks}, 1);
  const Shape shape = shape_of(plan, counts, dtype, op);
  return program_of(plan, program_shape(plan, shape), {lanes, chunks});
}

std::vector<Program> all_bound(const std::vector<const Plan*>& list, const std::vector<std::size_t>& counts,
                               std::string_view dtype, std::string_view op, int lanes, int chunks) {
  std::vector<Plan> plans;
  for (const Plan* plan : list) plans.push_back(*plan);
  for (std::size_t r = 0; r < std::max(plans.size(), std::size_t{1}); ++r)
    if (r >= plans.size() || plans[r].rank != static_cast<int>(r) ||
        plans[r].collective.size != static_cast<int>(plans.size()))
      throw UsageError("plans: needs those of all ranks, in rank order");
  check({lanes, chunks}, 0);
  const Shape shape = shape_of(plans[0], counts, dtype, op);
  const std::size_t ring = gpu::ring_bytes(static_cast<gpu::u32>(plans.size()));
  const Slicing slicing = slicing_of(plans, shape, chunks, ring, [lanes](std::size_t) { return lanes; });
  std::vector<Program> programs;
  for (const Plan& plan : plans) programs.push_back(program_of(plan, program_shape(plan, shape), slicing));
  check_queues(programs, ring);
  return programs;
}

std::string described(const Program& program, const Plan& plan) {
  for (const auto* queue : {&program.puts, &program.takes})
    if (std::ranges::any_of(*queue, [&](const auto& what) { return what.step >= plan.steps.size(); }))
      throw UsageError("describe: this program was made from another plan, which has more steps");
  return describe(program, plan);
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<Program>(m, "Program", "What a plan becomes for a GPU: two queues of instructions, run by every lane.")
      .def_prop_ro("lanes", [](const Program& p) { return p.slicing.lanes; })
      .def_prop_ro(
          "chunks", [](const Program& p) { return p.slicing.chunks; }, "Of a lane.")
      .def_prop_ro("scratch_bytes", &Program::all_scratch_bytes)
      .def_prop_ro(
          "longest_message", [](const Program& p) { return p.longest_message; }, "Bytes, at most.")
      .def(
          "to_dict", [](const Program& p) { return to_dict(p); }, "Plain data, as JSON takes it.")
      .def_static("from_dict", &program_from_dict, "dict"_a,
                  "What to_dict gave, to be shown and checked. Raises UsageError for what no program can be.")
      .def("describe", &described, "plan"_a,
           "The plan that it was made from. A line for each instruction; p0, p1, … are the puts, t0, t1, … the takes.");
  m.def("program_of", &bound, "plan"_a, "counts"_a, "dtype"_a = "float32", "op"_a = "sum", "lanes"_a = 1,
        "chunks"_a = 1, "counts: elements of each part, or one number for all.");
  m.def(
      "programs_of", &all_bound, "plans"_a, "counts"_a, "dtype"_a = "float32", "op"_a = "sum", "lanes"_a = 1,
      "chunks"_a = 0,
      "Of all ranks, and proven: as check_queues does. chunks: at least; 0: as few as a call of so many lanes takes.");
  m.def(
      "check_queues",
      [](const std::vector<const Program*>& list, std::size_t ring_bytes) {
        std::vector<Program> programs;
        for (const Program* program : list) programs.push_back(*program);
        check_queues(programs, ring_bytes);
      },
      "programs"_a, "ring_bytes"_a, "Of all ranks. Raises PlanError where a queue does not come to its end.");
}

}  // namespace lanecast
