// SPDX-License-Identifier: Apache-2.0
#include "program_dict.h"

#include <nanobind/stl/string.h>

#include "base/dtype.h"
#include "base/error.h"

namespace nb = nanobind;

namespace lanecast {
namespace {

constexpr std::uint32_t kMostDelay = 1 << 16;       // far more than any composition has stages
constexpr std::uint32_t kMostLaneChunks = 1 << 20;  // a message is never cut into so many
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

[[noreturn]] void refuse(const std::string& what) { throw UsageError("program: " + what); }

/// A whole number from `least` to `most`.
template <class Number>
Number number(nb::handle entries, const char* name, std::uint64_t least, std::uint64_t most) {
  const auto value = nb::cast<std::uint64_t>(entries[name]);
  if (value < least || value > most)
    refuse(std::string(name) + ": " + std::to_string(value) + " is not from " + std::to_string(least) + " to " +
           std::to_string(most));
  return static_cast<Number>(value);
}

gpu::Space space_named(const std::string& name) {
  if (name == "in") return gpu::Space::in;
  if (name == "out") return gpu::Space::out;
  if (name == "scratch") return gpu::Space::scratch;
  refuse("space: '" + name + "' is none of in, out and scratch");
}

gpu::Operand read_operand(nb::handle d) {
  gpu::Operand o{};
  o.space = space_named(nb::cast<std::string>(d["space"]));
  o.base = number<gpu::u64>(d, "base", 0, kMostBytes);
  o.bytes = number<gpu::u64>(d, "bytes", 0, kMostBytes);
  o.stride = number<gpu::u64>(d, "stride", 0, kMostBytes);
  o.den = number<gpu::u32>(d, "den", 1, INT32_MAX);
  o.to = number<gpu::u32>(d, "to", 0, o.den);
  o.from = number<gpu::u32>(d, "from", 0, o.to);
  o.slot_from = number<gpu::u32>(d, "slot_from", 0, o.den);
  return o;
}

/// Of each run so many operands, which say how many sources it has.
void read_runs(Program& program, gpu::Instruction& what, nb::handle runs) {
  what.operands = static_cast<gpu::u32>(program.operands.size());
  const bool adds = what.operation == gpu::Operation::take_reduce || what.operation == gpu::Operation::reduce;
  what.sources = adds ? 2 : 1;
  for (nb::handle run : runs) {
    const std::size_t first = program.operands.size();
    for (nb::handle operand : run) program.operands.push_back(read_operand(operand));
    const std::size_t each = program.operands.size() - first;
    if (what.runs == 0 && adds && each > 1 && each <= gpu::kMostRanks + 1)
      what.sources = static_cast<gpu::u8>(what.operation == gpu::Operation::reduce ? each - 1 : each);
    if (each != operands_of(what))
      refuse("runs: one of " + std::to_string(each) + " operands, where a " + std::string(name_of(what.operation)) +
             " has " + std::to_string(operands_of(what)));
    if (++what.runs > gpu::kRunsAtOnce) refuse("runs: more than " + std::to_string(gpu::kRunsAtOnce));
  }
}

/// What all instructions have.
gpu::Instruction read_rest(Program& program, gpu::Instruction what, nb::handle d) {
  what.ends = nb::cast<bool>(d["ends"]) ? 1 : 0;
  what.writes_scratch = nb::cast<bool>(d["writes_scratch"]) ? 1 : 0;
  what.joined = nb::cast<bool>(d["joined"]) ? 1 : 0;
  what.delay = number<gpu::u32>(d, "delay", 0, program.delays);
  what.needs = number<gpu::u32>(d, "needs", 0, UINT32_MAX);
  what.needs_back = number<gpu::u32>(d, "needs_back", 0, what.delay);
  what.step = number<gpu::u32>(d, "step", 0, UINT32_MAX);
  const auto op = nb::cast<std::string>(d["op"]);
  const auto sum = op_from(op);
  if (!sum) refuse("op: '" + op + "' is unknown");
  what.op = static_cast<gpu::u8>(*sum);
  what.divisor = nb::cast<double>(d["divisor"]);
  if (!(what.divisor >= 1)) refuse("divisor: " + std::to_string(what.divisor) + " is less than 1");
  read_runs(program, what, d["runs"]);
  return what;
}

gpu::Instruction read_instruction(Program& program, nb::handle d, bool puts) {
  gpu::Instruction what{};
  const auto name = nb::cast<std::string>(d["operation"]);
  const auto operation = operation_from(name);
  if (!operation) refuse("operation: '" + name + "' is unknown");
  what.operation = *operation;
  if ((what.operation == gpu::Operation::put) != puts)
    refuse("operation: a " + name + " stands among the " + (puts ? "puts" : "takes"));
  if (talks(what)) what.peer = number<gpu::u16>(d, "peer", 0, UINT16_MAX);
  if (nb::object(d["carried"]).is_none()) return read_rest(program, what, d);
  const auto carried = number<gpu::u32>(d, "carried", 0, UINT32_MAX);
  if (!talks(what) || carried >= program.carried.size() || program.carried[carried].sends != puts)
    refuse("carried: message " + std::to_string(carried) + " is none that a " + name + " of this program has");
  what.carried = carried + 1;
  what.peer = 0;
  return read_rest(program, what, d);
}

void require_needed(const std::vector<gpu::Instruction>& queue, const std::vector<gpu::Instruction>& other) {
  for (const gpu::Instruction& what : queue)
    if (what.needs > other.size())
      refuse("needs: " + std::to_string(what.needs) + ", but the other queue has " + std::to_string(other.size()));
}

Carried read_carried(nb::handle d, std::uint32_t chunks) {
  Carried one;
  one.memory.place = number<gpu::u64>(d, "place", 0, kMostBytes);
  one.memory.lane_bytes = number<gpu::u64>(d, "lane_bytes", 0, kMostBytes);
  one.memory.slots = number<gpu::u32>(d, "slots", 1, UINT32_MAX);
  one.memory.on_host = nb::cast<bool>(d["on_host"]) ? 1 : 0;
  one.ordinal = number<std::uint32_t>(d, "ordinal", 0, UINT32_MAX);
  one.peer = number<int>(d, "peer", 0, INT32_MAX);
  one.sends = nb::cast<bool>(d["sends"]);
  one.memory.chunks = chunks;
  return one;
}

Program read_program(const nb::dict& d) {
  if (d.contains("counted") && !nb::object(d["counted"]).is_none())
    refuse("counted: its counts come with the launch; give what with_counts() has made of it");
  Program program;
  program.slicing.lanes = number<int>(d, "lanes", 1, gpu::kMostLanes);
  program.slicing.chunks = number<int>(d, "chunks", 1, kMostLaneChunks);
  program.slicing.channels = number<int>(d, "channels", 1, static_cast<std::uint64_t>(program.slicing.lanes));
  if (program.slicing.lanes % program.slicing.channels != 0) refuse("channels: they do not divide the lanes");
  for (nb::handle one : nb::object(d["carried"]))
    program.carried.push_back(read_carried(one, static_cast<std::uint32_t>(program.slicing.chunks)));
  program.delays = number<std::uint32_t>(d, "delays", 0, kMostDelay);
  program.generations = number<std::uint32_t>(d, "generations", 1, UINT32_MAX);
  program.scratch_bytes = number<std::size_t>(d, "scratch_bytes", 0, kMostBytes);
  program.longest_message = number<std::size_t>(d, "longest_message", 0, kMostBytes);
  for (nb::handle what : nb::object(d["puts"])) program.puts.push_back(read_instruction(program, what, true));
  for (nb::handle what : nb::object(d["takes"])) program.takes.push_back(read_instruction(program, what, false));
  require_needed(program.puts, program.takes);
  require_needed(program.takes, program.puts);
  return program;
}

}  // namespace

Program program_from_dict(const PlanDict& dict) {
  try {
    return read_program(dict);
  } catch (const nb::python_error& error) {
    throw UsageError(std::string("program: an entry is missing or of the wrong form: ") + error.what());
  } catch (const std::bad_cast&) {
    throw UsageError("program: an entry is of the wrong type; expected what Program.to_dict gives");
  }
}

}  // namespace lanecast
