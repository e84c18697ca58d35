// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/bound_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mix.h"
#include "program/slices.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/bound/step_reduction.h"

namespace lanecast {
namespace {

/// Does a rank send, and nothing but what it gets? As of a root's along a chain; in rings of all ranks each also sends
/// its own, which waits for nobody.
bool only_passes_on(const Plan& plan) {
  bool sends = false;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::send) continue;
    if (!std::ranges::any_of(plan.deps(step), [&](std::uint32_t before) { return talks(plan.steps[before]); }))
      return false;
    sends = true;
  }
  return sends;
}

constexpr std::size_t kKiB = 1024;
/// So much of a lane in all is little.
constexpr std::size_t kLittle = 512 * kKiB;

/// Of all messages at most. Each costs some microseconds beside its bytes, so they are long where receivers take them
/// out as fast as they come; but what comes while one is taken has to find room, too. of_a_lane: bytes of its longest
/// message, were it one. By what was fastest between two H200s, and for most rows among four: see decisions 0098 and
/// 0102.
std::size_t most_message_bytes(const std::vector<Plan>& plans, bool in_stages, std::size_t of_a_lane,
                               std::size_t ring_bytes) {
  const std::size_t short_ones = (of_a_lane <= kLittle ? 64 : 48) * kKiB;
  if (in_stages) return std::min(short_ones, ring_bytes / 3);
  bool moves = false, adds = false, both_ways = false;
  for (const Plan& plan : plans) {
    bool sends = false, gets = false;
    for (const Step& step : plan.steps) {
      moves |= step.kind == StepKind::recv;
      adds |= step.kind == StepKind::recv_reduce;
      sends |= step.kind == StepKind::send;
      gets |= talks(step) && step.kind != StepKind::send;
    }
    both_ways |= sends && gets;
  }
  if (adds && moves) return ring_bytes / 2;
  // They take long, so they are to begin soon.
  if (std::ranges::any_of(plans, only_passes_on)) return std::min(48 * kKiB, ring_bytes / 4);
  if (adds && both_ways) return std::min(short_ones, ring_bytes / 4);
  if (adds) return ring_bytes / 3;
  // Where a rank gets as much as it sends and copies its own part beside, that queue is as busy as the link, so it is
  // to have few instructions. Who is in place copies nothing, and has messages as long.
  return std::min((both_ways ? 192 : 128) * kKiB, ring_bytes * 2 / 3);
}

constexpr int kMostProgramChunks = 1 << 16;  // beyond any memory

std::vector<std::byte> image_of(const Program& program) {
  std::vector<std::byte> image;
  const auto append = [&image](const auto& list) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(list.data());
    image.insert(image.end(), bytes, bytes + list.size() * sizeof list[0]);
  };
  append(program.puts);
  append(program.takes);
  append(program.operands);
  std::vector<gpu::CarriedMessage> carried;
  carried.reserve(program.carried.size());
  for (const Carried& one : program.carried) carried.push_back(one.memory);
  append(carried);
  return image;
}

std::size_t image_bytes(const Program& program) {
  return (program.puts.size() + program.takes.size()) * sizeof(gpu::Instruction) +
         program.operands.size() * sizeof(gpu::Operand) + program.carried.size() * sizeof(gpu::CarriedMessage);
}

/// Does a second fence behind each put serve? Where a rank puts and takes at once and adds nothing up, messages of 63
/// KiB and more gain up to 13 % by it. Those of 32 KiB and less lose as much, and short ones one way even more; sums
/// lose. By what was fastest between two H200s: see decision 0102.
bool is_in_flow(const Program& program) {
  constexpr std::size_t kLong = 56 * kKiB;
  const auto takes = [](const gpu::Instruction& what) { return what.operation == gpu::Operation::take; };
  return program.longest_message >= kLong && !program.puts.empty() && program.carried.empty() &&
         std::ranges::any_of(program.takes, takes) && std::ranges::none_of(program.takes, adds_up);
}

/// In the GPU's memory.
std::size_t table_bytes(const Program& program) {
  const bool fits = image_bytes(program) + program.table_bytes() <= gpu::kProgramBytes;
  return fits ? 0 : program.table_bytes() * static_cast<std::size_t>(program.slicing.lanes);
}

}  // namespace

ProgramShape program_shape(const Plan& plan, const Shape& shape) {
  Shape whole = shape;
  whole.chunks = 1;
  whole.piece = 0;
  const Layout layout(plan, whole);
  const PartRange inputs = plan.collective.inputs(plan.rank), outputs = plan.collective.outputs(plan.rank);
  ProgramShape bound;
  bound.parts.resize(static_cast<std::size_t>(plan.collective.parts()));
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(bound.parts.size()); ++p) {
    PartBytes& part = bound.parts[p];
    part.bytes = layout.elements({p, kZero, kOne}, shape.slice) * size_of(shape.dtype);
    if (inputs.has(p)) part.in = layout.place({kIn, p, kZero, kOne}, shape.slice).offset;
    if (outputs.has(p)) part.out = layout.place({kOut, p, kZero, kOne}, shape.slice).offset;
  }
  bound.sum_of = [&plan, &shape](const Step& step) {
    const Reduction how = reduction_of(plan, step, shape);
    return StepSum{static_cast<std::uint32_t>(how.op), how.overrange, how.divisor};
  };
  return bound;
}

Slicing slicing_of(const std::vector<Plan>& plans, bool in_stages, const Shape& shape, int chunks,
                   std::size_t ring_bytes, const std::function<int(std::size_t)>& lanes_for) {
  std::vector<std::vector<PartBytes>> parts;  // of each plan
  parts.reserve(plans.size());
  for (const Plan& plan : plans) parts.push_back(program_shape(plan, shape).parts);
  const auto longest = [&](std::size_t slices) {
    std::size_t bytes = 0;
    for (std::size_t p = 0; p < plans.size(); ++p) bytes = std::max(bytes, longest_message(plans[p], parts[p], slices));
    return bytes;
  };
  const std::size_t whole = longest(1);
  Slicing slicing{lanes_for(whole), std::max(chunks, 1)};
  const std::size_t of_a_lane = longest(static_cast<std::size_t>(slicing.lanes));
  // Of a fraction of a slice a message may be a granule longer.
  const std::size_t most = chunks ? ring_bytes : most_message_bytes(plans, in_stages, of_a_lane, ring_bytes) + kGranule;
  while (longest(slicing.slices()) > most) {
    if (slicing.chunks > kMostProgramChunks)
      throw UsageError("a message of " + std::to_string(whole) + " bytes is cut into " +
                       std::to_string(slicing.chunks) + " chunks or is of too many parts, more than programs take");
    slicing.chunks += std::max(1, slicing.chunks / 8);
  }
  return slicing;
}

std::string without_groups(std::string_view algorithm, Kind kind) {
  constexpr std::string_view kGroups = "peers";
  std::string name(algorithm);
  for (auto at = name.find(kGroups); at != std::string::npos; at = name.find(kGroups, at))
    name.replace(at, kGroups.size(), kind == Kind::all_to_all ? "pairwise" : "direct");
  return name;
}

void check_queues(const std::vector<Plan>& plans, const std::function<ProgramShape(const Plan&)>& shaped,
                  Slicing slicing) {
  std::vector<Program> programs;
  programs.reserve(plans.size());
  for (const Plan& plan : plans) programs.push_back(program_of(plan, shaped(plan), slicing));
  std::size_t longest = 0;
  for (const Program& program : programs) longest = std::max(longest, program.longest_message);
  check_queues(programs, longest);
}

BoundProgram::BoundProgram(const std::shared_ptr<gpu::Device>& device, Plan plan, Shape shape,
                           const ProgramShape& bound, Slicing slicing)
    : plan_(std::move(plan)),
      shape_(std::move(shape)),
      program_(program_of(plan_, bound, slicing)),
      carried_(program_),
      in_flow_(is_in_flow(program_)),
      signature_(signature_on_gpus(plan_, shape_)),
      record_(record_of(plan_, shape_)),
      on_device_(device, image_of(program_)),
      scratch_(device, std::max<std::size_t>(program_.all_scratch_bytes(), 1)),
      table_(device, std::max<std::size_t>(table_bytes(program_), 1)) {}

std::uint16_t BoundProgram::signature(const Signature& call) const {
  // Ranks have chunks of a number of their own.
  if (program_.counted && program_.counted->by_pairs) return folded(call.hash);
  const std::uint64_t sliced = mix(call.hash, static_cast<std::uint64_t>(program_.slicing.lanes));
  return folded(mix(sliced, static_cast<std::uint64_t>(program_.slicing.chunks)));
}

gpu::ProgramRun BoundProgram::run(const void* in, void* out) const {
  gpu::ProgramRun run{};
  run.chunks = static_cast<gpu::u32>(program_.slicing.chunks);
  run.ticks = program_.ticks();
  run.puts = static_cast<gpu::u32>(program_.puts.size());
  run.takes = static_cast<gpu::u32>(program_.takes.size());
  run.operands = static_cast<gpu::u32>(program_.operands.size());
  run.carried = static_cast<gpu::u32>(program_.carried.size());
  run.channels = static_cast<gpu::u32>(program_.slicing.channels);
  const auto carried =
      std::ranges::find_if(program_.puts, [](const gpu::Instruction& put) { return put.carried != 0; });
  run.first_carried = carried == program_.puts.end() ? 0 : carried->carried;
  run.in_flow = in_flow_ ? 1 : 0;
  run.generations = program_.generations;
  run.signature = signature();
  run.scratch_bytes = program_.scratch_bytes;
  run.program = on_device_.address();
  run.base[static_cast<int>(gpu::Space::in)] = reinterpret_cast<gpu::Address>(in);
  run.base[static_cast<int>(gpu::Space::out)] = reinterpret_cast<gpu::Address>(out);
  run.base[static_cast<int>(gpu::Space::scratch)] = scratch_.address();
  if (const auto& counted = program_.counted) {
    run.counts.rows = static_cast<gpu::u32>(counted->rows.size());
    run.counts.inputs = counted->inputs;
    run.counts.outputs = counted->outputs;
    run.counts.by_pairs = counted->by_pairs ? 1 : 0;
    run.counts.own_in = counted->own_in;
    run.counts.own_out = counted->own_out;
    run.counts.element_bytes = static_cast<gpu::u32>(size_of(shape_.dtype));
    run.counts.table = table_.address();
    run.counts.table_bytes = program_.table_bytes();
  }
  return run;
}

}  // namespace lanecast
