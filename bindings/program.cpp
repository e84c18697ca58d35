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
#include "program/delays.h"
#include "program_dict.h"
#include "runtime/gpu/between_hosts/between_hosts.h"
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
  if (o.row != 0) d["row"] = o.row - 1;
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
  d["joined"] = what.joined != 0;
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

/// What the counts of a launch decide of a carried message.
void add_counted(nb::dict& message, const Program& program, const gpu::CarriedMessage& memory) {
  nb::list pieces;
  for (std::size_t k = 0; k < memory.pieces; ++k) pieces.append(to_dict(program.operands[memory.piece + k]));
  message["pieces"] = pieces;
  message["places"] = nb::make_tuple(memory.places[0], memory.places[1]);
  message["least_on_gpu"] = memory.least_on_gpu;
}

nb::dict counted_parts(const CountedParts& parts) {
  nb::dict d;
  d["rows"] = parts.rows;
  d["inputs"] = parts.inputs;
  d["outputs"] = parts.outputs;
  d["by_pairs"] = parts.by_pairs;
  return d;
}

PlanDict to_dict(const Program& program) {
  nb::dict d;
  d["lanes"] = program.slicing.lanes;
  d["chunks"] = program.slicing.chunks;
  d["channels"] = program.slicing.channels;
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
    message["peer"] = one.peer;
    message["sends"] = one.sends;
    message["chunks"] = one.memory.chunks;
    if (program.counted) add_counted(message, program, one.memory);
    carried.append(message);
  }
  d["carried"] = carried;
  d["counted"] = program.counted ? nb::object(counted_parts(*program.counted)) : nb::none();
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

/// Where the ranks of a program are, for one between hosts; no hosts: all ranks are on one.
struct HostsOfProgram {
  std::vector<std::string> hosts;  // of each rank
  int channels = 1;
  int slots = 0;  // of each carried message, at most; 0: as many as a call has
  CountsKnown counts = CountsKnown::before;
  std::size_t least_on_gpu = WhereMessagesLie::kNever;
};

CountsKnown counts_known(std::string_view name) {
  if (name == "before") return CountsKnown::before;
  if (name == "to_all") return CountsKnown::to_all;
  if (name == "by_pairs") return CountsKnown::by_pairs;
  throw UsageError("program: counted: '" + std::string(name) + "' is none of before, to_all and by_pairs");
}

void check(const HostsOfProgram& where, int ranks, int lanes) {
  if (where.hosts.empty() && (where.channels != 1 || where.slots != 0))
    throw UsageError("program: channels and slots: are of programs between hosts; give hosts as well");
  if (!where.hosts.empty() && where.hosts.size() != static_cast<std::size_t>(ranks))
    throw UsageError("program: hosts: needs one for each of " + std::to_string(ranks) + " ranks, got " +
                     std::to_string(where.hosts.size()));
  if (where.channels < 1 || lanes % where.channels != 0)
    throw UsageError("program: channels: " + std::to_string(where.channels) + " do not divide " +
                     std::to_string(lanes) + " lanes");
  if (where.slots < 0 || where.slots == 1)
    throw UsageError("program: slots: " + std::to_string(where.slots) +
                     ": a carried message has two at least; 0: as many as a call has");
}

/// As a call between hosts shapes it.
Program bound(const Plan& plan, const Shape& shape, Slicing slicing, const HostsOfProgram& where,
              std::vector<std::int32_t> stages = {}) {
  ProgramShape bound = program_shape(plan, shape);
  bound.stages = std::move(stages);
  bound.counts = where.counts;
  if (!where.hosts.empty()) {
    Ranks neighbours = BetweenHosts::neighbours_of(plan.rank, where.hosts);
    const std::size_t longest = BetweenHosts::longest_in_ring(neighbours.size());
    bound.between_hosts = {std::move(neighbours), std::vector<std::size_t>(where.hosts.size(), where.least_on_gpu),
                           longest};
    slicing.channels = where.channels;
  }
  Program program = program_of(plan, bound, slicing);
  for (Carried& one : program.carried)
    if (where.slots != 0) one.memory.slots = std::min(one.memory.slots, static_cast<std::uint32_t>(where.slots));
  return program;
}

Program bound_one(const Plan& plan, const std::vector<std::size_t>& counts, std::string_view dtype, std::string_view op,
                  int lanes, int chunks, std::vector<std::string> hosts, int channels, int slots,
                  std::string_view counted, std::size_t least_on_gpu) {
  const HostsOfProgram where{std::move(hosts), channels, slots, counts_known(counted), least_on_gpu};
  check({lanes, chunks}, 1);
  check(where, plan.collective.size, lanes);
  return bound(plan, shape_of(plan, counts, dtype, op), {lanes, chunks}, where);
}

/// Of each carried message, chunk and channel: bytes, and lanes with a share as bits.
nb::list carried_chunks(const Program& program) {
  const CarriedChunks chunks(program);
  nb::list messages;
  for (std::size_t m = 0; m < program.carried.size(); ++m) {
    nb::list of_message;
    for (std::uint32_t chunk = 0; chunk < program.carried[m].memory.chunks; ++chunk)
      for (int channel = 0; channel < program.slicing.channels; ++channel) {
        const CarriedChunk one = chunks.of(m, chunk, static_cast<std::uint32_t>(channel));
        of_message.append(nb::make_tuple(one.bytes, one.lanes));
      }
    messages.append(of_message);
  }
  return messages;
}

std::vector<Program> all_bound(const std::vector<const Plan*>& list, const std::vector<std::size_t>& counts,
                               std::string_view dtype, std::string_view op, int lanes, int chunks,
                               std::vector<std::string> hosts, int channels, int slots) {
  std::vector<Plan> plans;
  for (const Plan* plan : list) plans.push_back(*plan);
  for (std::size_t r = 0; r < std::max(plans.size(), std::size_t{1}); ++r)
    if (r >= plans.size() || plans[r].rank != static_cast<int>(r) ||
        plans[r].collective.size != static_cast<int>(plans.size()))
      throw UsageError("plans: needs those of all ranks, in rank order");
  const HostsOfProgram where{.hosts = std::move(hosts), .channels = channels, .slots = slots};
  check({lanes, chunks}, 0);
  check(where, static_cast<int>(plans.size()), lanes);
  const Shape shape = shape_of(plans[0], counts, dtype, op);
  std::size_t ring = gpu::ring_bytes(static_cast<gpu::u32>(plans.size()));
  Slicing slicing{lanes, std::max(chunks, 1)};  // between hosts a message that fits no ring is cut, not the parts
  std::vector<std::int32_t> stages;
  if (where.hosts.empty()) {
    stages = stages_of(plans);
    slicing = slicing_of(plans, !stages.empty(), shape, chunks, ring, [lanes](std::size_t) { return lanes; });
  }
  std::vector<Program> programs;
  for (const Plan& plan : plans) programs.push_back(bound(plan, shape, slicing, where, stages));
  if (!where.hosts.empty()) {
    ring = 0;
    for (const Program& program : programs) ring = std::max(ring, program.longest_message);
  }
  check_queues(programs, ring);
  return programs;
}

/// counts: elements by row.
Program counted(const Program& program, const std::vector<std::size_t>& counts, std::string_view dtype) {
  const auto type = dtype_from(dtype);
  if (!program.counted || !type || counts.size() != program.counted->rows.size())
    throw UsageError(
        "with_counts: needs a program whose counts come with the launch, a count for each of its rows, "
        "and a dtype that there is");
  std::vector<std::size_t> bytes = counts;
  for (std::size_t& each : bytes) each *= size_of(*type);
  return with_counts(program, bytes);
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
      .def("with_counts", &counted, "counts"_a, "dtype"_a = "float32",
           "Where counts come with the launch: the program of a launch with these, in elements by row.")
      .def("carried_chunks", &carried_chunks,
           "Of each carried message, in the order of chunks and their channels: bytes, and lanes with a share as bits.")
      .def(
          "to_dict", [](const Program& p) { return to_dict(p); }, "Plain data, as JSON takes it.")
      .def_static("from_dict", &program_from_dict, "dict"_a,
                  "What to_dict gave, to be shown and checked. Raises UsageError for what no program can be.")
      .def("describe", &described, "plan"_a,
           "The plan that it was made from. A line for each instruction; p0, p1, … are the puts, t0, t1, … the takes.");
  m.def("program_of", &bound_one, "plan"_a, "counts"_a, "dtype"_a = "float32", "op"_a = "sum", "lanes"_a = 1,
        "chunks"_a = 1, "hosts"_a = std::vector<std::string>{}, "channels"_a = 1, "slots"_a = 0, "counted"_a = "before",
        "least_on_gpu"_a = WhereMessagesLie::kNever,
        "counts: elements of each part, or one number for all. hosts: of each rank, for a program between "
        "hosts. slots: of each carried message, at most, and no less than two; 0: as many as a call has. counted: who "
        "knows the counts that "
        "come with the launch, 'to_all' or 'by_pairs'; then counts are as large as they may be. least_on_gpu: bytes "
        "of a message that lies on the GPU.");
  m.def(
      "programs_of", &all_bound, "plans"_a, "counts"_a, "dtype"_a = "float32", "op"_a = "sum", "lanes"_a = 1,
      "chunks"_a = 0, "hosts"_a = std::vector<std::string>{}, "channels"_a = 1, "slots"_a = 0,
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
