// SPDX-License-Identifier: Apache-2.0
// From a rank's plan to its program.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "program/carried_slots.h"
#include "program/delays.h"
#include "program/step_operands.h"

namespace lanecast {
namespace {

/// A place in one of the queues.
struct At {
  std::uint32_t delay = 0, index = 0;
  bool puts = false;
};

/// The plan's order, but first the copies that need nothing: a rank does those while the first message is on its way to
/// it, where the list has them behind the last. They wait for nobody, so all waits still point backwards.
std::vector<std::uint32_t> copies_first(const Plan& plan) {
  std::vector<std::uint32_t> order;
  for (const bool first : {true, false})
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i)
      if ((plan.steps[i].kind == StepKind::copy && plan.deps(plan.steps[i]).empty()) == first) order.push_back(i);
  return order;
}

class ProgramLowering {
 public:
  ProgramLowering(const Plan& plan, const ProgramShape& shape, Slicing slicing)
      : plan_(plan),
        shape_(shape),
        parts_(shape, slicing),
        rows_(plan, shape.counts),
        operands_(plan, shape, parts_, rows_),
        delays_(plan.steps.size()),
        last_(plan.steps.size()),
        needed_(plan.steps.size()) {
    program_.slicing = slicing;
    program_.counted = rows_.parts();
    program_.scratch_bytes = operands_.scratch_bytes();
    if (!shape_.between_hosts) return;
    program_.neighbours = shape_.between_hosts->neighbours;
    place_of_.assign(static_cast<std::size_t>(plan.collective.size), kElsewhere);
    for (std::size_t k = 0; k < program_.neighbours.size(); ++k)
      place_of_[program_.neighbours[k]] = static_cast<std::int32_t>(k);
  }

  Program run() {
    const bool in_stages = shape_.between_hosts || !shape_.stages.empty();
    if (in_stages && program_.slicing.chunks > 1) set_delays();  // with one chunk nothing overlaps
    for (const std::uint32_t i : copies_first(plan_)) lower(i);
    place_carried(program_);
    program_.generations = plan_.slots == 0 ? 1 : program_.delays + 2;
    return std::move(program_);
  }

 private:
  static constexpr std::int32_t kElsewhere = -1;

  bool is_carried(const Step& step) const {
    return talks(step) && !place_of_.empty() && place_of_[step.peer] == kElsewhere;
  }

  void set_delays() {
    std::vector<bool> carried;
    carried.reserve(plan_.steps.size());
    for (const Step& step : plan_.steps) carried.push_back(is_carried(step));
    delays_ = delays_of(plan_, carried, shape_.stages);
    for (const std::uint32_t delay : delays_) program_.delays = std::max(program_.delays, delay);
  }

  void lower(std::uint32_t i) {
    const Step& step = plan_.steps[i];
    if (step.kind == StepKind::group)
      throw UsageError("algorithm '" + plan_.algorithm + "': no program has group steps, as " + describe(plan_, i));
    const bool puts = step.kind == StepKind::send;
    gpu::Instruction what{};
    what.operation = operation_of(step.kind);
    what.peer = static_cast<gpu::u16>(step.peer < 0 ? 0 : place_of_.empty() ? step.peer : place_of_[step.peer]);
    what.sources = static_cast<gpu::u8>(sources_of(step));
    what.delay = delays_[i];
    what.step = i;
    what.divisor = 1;
    what.writes_scratch = std::ranges::any_of(plan_.dst(step), [](const Block& b) { return b.in_scratch(); });
    if (step.kind == StepKind::recv_reduce || step.kind == StepKind::reduce) {
      const StepSum sum = shape_.sum_of(step);
      what.op = static_cast<gpu::u8>(sum.op);
      what.overrange = sum.overrange;
      what.divisor = sum.divisor;
    }
    need(what, i, puts);
    if (is_carried(step))
      carry(what, i);
    else if (talks(step))
      through_ring(what, step);
    else
      append(what, operands_.of(step), puts);
    auto& queue = puts ? program_.puts : program_.takes;
    last_[i] = {delays_[i], static_cast<std::uint32_t>(queue.size()) - 1, puts};
    if (puts) join_to_sum();
  }

  /// The latest put, with one chunk: in a longer row the queue that takes has the more to do already. A sum that goes
  /// to several peers is joined to none: the other puts would wait until the first one's word is out.
  void join_to_sum() {
    gpu::Instruction& put = program_.puts.back();
    if (program_.slicing.chunks > 1 || program_.counted || !puts_a_sum(program_, put)) return;
    const auto [first, is_first] = put_of_sum_.try_emplace(put.needs, program_.puts.size() - 1);
    put.joined = is_first ? 1 : 0;
    program_.puts[first->second].joined = put.joined;
    program_.takes[put.needs - 1].joined = put.joined;
  }

  void carry(gpu::Instruction what, std::uint32_t i) {
    program_.carried.push_back(carried_message(plan_, i, shape_, program_.slicing));
    what.peer = 0;
    what.carried = static_cast<gpu::u32>(program_.carried.size());
    append(what, operands_.of(plan_.steps[i]), program_.carried.back().sends);
    if (!program_.counted) return;
    const auto pieces = operands_.pieces_of_message(plan_.steps[i]);
    gpu::CarriedMessage& memory = program_.carried.back().memory;
    memory.pieces = static_cast<gpu::u32>(pieces.size());
    memory.piece = static_cast<gpu::u32>(program_.operands.size());
    program_.operands.insert(program_.operands.end(), pieces.begin(), pieces.end());
  }

  /// As many messages as the rings need, each a cut of the same pieces on both ends.
  void through_ring(const gpu::Instruction& what, const Step& step) {
    const bool puts = step.kind == StepKind::send;
    const Pieces message = message_of(plan_, step);
    const std::size_t bytes = parts_.most_bytes_to_both(message);
    const std::size_t most = shape_.between_hosts ? shape_.between_hosts->longest_in_ring : bytes;
    if (bytes <= most) {
      program_.longest_message = std::max(program_.longest_message, bytes);
      append(what, operands_.of(step), puts);
      return;
    }
    const auto shares = static_cast<int>((bytes + most - 1) / most);
    for (int k = 0; k < shares; ++k) {
      const Pieces share = cut(message, k, shares);
      program_.longest_message = std::max(program_.longest_message, parts_.most_bytes_to_both(share));
      append(what, operands_.of(step, share), puts);
    }
  }

  static gpu::Operation operation_of(StepKind kind) {
    switch (kind) {
      case StepKind::send:
        return gpu::Operation::put;
      case StepKind::recv:
        return gpu::Operation::take;
      case StepKind::recv_reduce:
        return gpu::Operation::take_reduce;
      case StepKind::copy:
        return gpu::Operation::copy;
      default:
        return gpu::Operation::reduce;
    }
  }

  std::uint32_t sources_of(const Step& step) const {
    if (step.kind == StepKind::recv_reduce) return 2;
    if (step.kind != StepKind::reduce) return 1;
    if (step.sources > gpu::kMostRanks)
      throw UsageError("algorithm '" + plan_.algorithm + "': on GPUs a step adds up to " +
                       std::to_string(gpu::kMostRanks) + " contributions, and this one of " +
                       std::to_string(plan_.collective.size) + " ranks has more; name another one");
    return step.sources;
  }

  /// Of the other queue the latest: those before it have ended by then. Also what steps of its own queue need for which
  /// it waits: in a slice where such a step has no bytes, that step waits for nobody.
  void need(gpu::Instruction& what, std::uint32_t i, bool puts) {
    std::optional<At>& latest = needed_[i];
    for (const std::uint32_t before : plan_.deps(plan_.steps[i])) {
      const std::optional<At> at = last_[before].puts == puts ? needed_[before] : last_[before];
      if (at && (!latest || std::pair(at->delay, at->index) > std::pair(latest->delay, latest->index))) latest = at;
    }
    if (!latest) return;
    what.needs = latest->index + 1;
    what.needs_back = what.delay - latest->delay;
  }

  void append(gpu::Instruction what, const Runs& runs, bool puts) {
    auto& queue = puts ? program_.puts : program_.takes;
    for (std::size_t first = 0; first < std::max<std::size_t>(runs.size(), 1); first += gpu::kRunsAtOnce) {
      const std::size_t last = std::min<std::size_t>(first + gpu::kRunsAtOnce, runs.size());
      what.runs = static_cast<gpu::u32>(last - first);
      what.operands = static_cast<gpu::u32>(program_.operands.size());
      what.ends = last == runs.size();
      for (std::size_t r = first; r < last; ++r)
        program_.operands.insert(program_.operands.end(), runs[r].begin(), runs[r].end());
      queue.push_back(what);
    }
  }

  const Plan& plan_;
  const ProgramShape& shape_;
  SlicedParts parts_;
  CountedRows rows_;
  StepOperands operands_;
  Program program_;
  std::vector<std::int32_t> place_of_;               // of ranks among this host's; empty: they are all
  std::vector<std::uint32_t> delays_;                // of steps
  std::vector<At> last_;                             // instruction of each step
  std::vector<std::optional<At>> needed_;            // of the other queue by each step
  std::map<std::uint32_t, std::size_t> put_of_sum_;  // the first one's place, by Instruction::needs
};

}  // namespace

Program program_of(const Plan& plan, const ProgramShape& shape, Slicing slicing) {
  return ProgramLowering(plan, shape, slicing).run();
}

}  // namespace lanecast
