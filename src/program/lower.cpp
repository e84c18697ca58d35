// SPDX-License-Identifier: Apache-2.0
// From a rank's plan to its program.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "program/program.h"
#include "program/slices.h"

namespace lanecast {
namespace {

constexpr std::size_t kSlotAlignment = 128;  // whole lines of a cache
// Chunks of a carried message that lie in slots at a time: one is put or taken while others are on their way.
constexpr std::uint32_t kMostSlots = 8, kLeastSlots = 2;
constexpr std::size_t kMostSlotBytes = std::size_t{64} << 20;  // of all messages of a program that take more than that
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

/// A place in one of the queues.
struct At {
  std::uint32_t delay = 0, index = 0;
  bool puts = false;
};

class ProgramLowering {
 public:
  ProgramLowering(const Plan& plan, const ProgramShape& shape, Slicing slicing)
      : plan_(plan),
        shape_(shape),
        slices_(slicing.slices()),
        delays_(plan.steps.size()),
        last_(plan.steps.size()),
        needed_(plan.steps.size()) {
    program_.slicing = slicing;
    if (shape_.between_hosts) {
      program_.neighbours = shape_.between_hosts->neighbours;
      place_of_.assign(static_cast<std::size_t>(plan.collective.size), kElsewhere);
      for (std::size_t k = 0; k < program_.neighbours.size(); ++k)
        place_of_[program_.neighbours[k]] = static_cast<std::int32_t>(k);
    }
    place_slots();
  }

  Program run() {
    set_delays();
    for (std::uint32_t i = 0; i < plan_.steps.size(); ++i) lower(i);
    place_carried();
    program_.generations = plan_.slots == 0 ? 1 : program_.delays + 2;
    return std::move(program_);
  }

 private:
  using Runs = std::vector<std::vector<gpu::Operand>>;  // of each run: its target, its sources
  using BlockLists = std::vector<std::span<const Block>>;
  static constexpr std::int32_t kElsewhere = -1;

  bool is_carried(const Step& step) const {
    return talks(step) && !place_of_.empty() && place_of_[step.peer] == kElsewhere;
  }
  Slice slice_of(std::int32_t part) const {
    if (shape_.slice_bytes != 0) return {shape_.slice_bytes};
    return lanecast::slice_of(shape_.parts[part].bytes, slices_);
  }
  /// Of a message in any slice. Both ends know the pieces, each in blocks of its own.
  std::size_t most_in_slice(const Pieces& pieces) const {
    std::size_t bytes = 0;
    for (const Piece& piece : pieces)
      bytes +=
          most_bytes({std::min(slice_of(piece.part).bytes, whole_granules(shape_.parts[piece.part].bytes))}, piece);
    return bytes;
  }
  Pieces pieces_of_message(const Step& step) const {
    const auto blocks = step.kind == StepKind::send ? plan_.src(step) : plan_.dst(step);
    return joined(pieces_of(blocks.data(), blocks.data() + blocks.size()));
  }

  void place_slots() {
    std::vector<std::size_t> largest(plan_.slots, 0);
    for (const Region& r : plan_.regions) {
      const Slice slice = slice_of(r.part);
      largest[r.slot] = std::max(largest[r.slot], most_bytes(slice, {r.part, r.lo, r.hi}));
    }
    slots_.push_back(0);
    for (const std::size_t bytes : largest) slots_.push_back(slots_.back() + aligned(bytes));
    program_.scratch_bytes = slots_.back();
  }

  /// With one chunk nothing overlaps. A step of no stage, which copies to the output, goes with what it needs.
  void set_delays() {
    if (program_.slicing.chunks == 1) return;
    const std::vector<bool> may_wait = takes_that_may_wait();
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      for (const std::uint32_t before : plan_.deps(step)) delays_[i] = std::max(delays_[i], delays_[before]);
      if (step.stage >= 0) {
        if (static_cast<std::uint32_t>(step.stage) < delays_[i])
          throw InternalError("program: " + describe(plan_, i) + " needs what comes in a later stage");
        delays_[i] = static_cast<std::uint32_t>(step.stage) + (may_wait[i] ? 1 : 0);
      }
      program_.delays = std::max(program_.delays, delays_[i]);
    }
  }

  /// Those of carried messages that no step of their stage needs. They work a chunk later: the message of one chunk is
  /// on its way while the next one's is put. Messages of one stage may be put later than taken on no rank, so no put
  /// waits.
  std::vector<bool> takes_that_may_wait() const {
    std::vector<bool> may_wait(plan_.steps.size());
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      may_wait[i] = is_carried(step) && step.kind != StepKind::send && step.stage >= 0;
      for (const std::uint32_t before : plan_.deps(step))
        if (plan_.steps[before].stage == step.stage) may_wait[before] = false;
    }
    return may_wait;
  }

  void lower(std::uint32_t i) {
    const Step& step = plan_.steps[i];
    if (step.kind == StepKind::group)
      throw UsageError("algorithm '" + plan_.algorithm + "': no program has group steps, as " + describe(plan_, i));
    const bool puts = step.kind == StepKind::send;
    gpu::Instruction what{};
    what.operation = operation_of(step.kind);
    what.peer = static_cast<gpu::u16>(step.peer < 0 ? 0 : place_of_.empty() ? step.peer : place_of_[step.peer]);
    what.sources = static_cast<gpu::u16>(sources_of(step));
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
      append(what, aligned_runs(lists_of(step)), puts);
    auto& queue = puts ? program_.puts : program_.takes;
    last_[i] = {delays_[i], static_cast<std::uint32_t>(queue.size()) - 1, puts};
  }

  void carry(gpu::Instruction what, std::uint32_t i) {
    const Step& step = plan_.steps[i];
    what.peer = 0;
    what.carried = static_cast<gpu::u32>(program_.carried.size() + 1);
    Carried carried{.step = i, .peer = step.peer, .sends = step.kind == StepKind::send, .ordinal = step.ordinal};
    carried.memory.lane_bytes = aligned(most_in_slice(pieces_of_message(step)));
    carried.chunks = static_cast<std::uint32_t>(program_.slicing.chunks);
    if (shape_.slice_bytes != 0) carried.chunks = chunks_of(step);
    if (!shape_.between_hosts) throw InternalError("program: a message is carried among ranks of one host");
    const BetweenHostsShape& how = *shape_.between_hosts;
    const auto lanes = static_cast<std::size_t>(program_.slicing.lanes_of_channel());
    carried.memory.on_host = carried.memory.lane_bytes * lanes >= how.least_on_gpu[step.peer] ? 0 : 1;
    program_.carried.push_back(carried);
    append(what, aligned_runs(lists_of(step)), carried.sends);
  }

  /// Of slices of a given length, as both ends of the message count them.
  std::uint32_t chunks_of(const Step& step) const {
    std::size_t chunks = 0;
    for (const Piece& piece : pieces_of_message(step)) {
      const std::size_t of_lanes = shape_.slice_bytes * static_cast<std::size_t>(program_.slicing.lanes);
      chunks = std::max(chunks, (shape_.parts[piece.part].bytes + of_lanes - 1) / of_lanes);
    }
    return static_cast<std::uint32_t>(chunks);
  }

  /// As many messages as the rings need, each a cut of the same pieces on both ends.
  void through_ring(const gpu::Instruction& what, const Step& step) {
    const bool puts = step.kind == StepKind::send;
    const Pieces pieces = pieces_of_message(step);
    const std::size_t bytes = most_in_slice(pieces);
    const std::size_t most = shape_.between_hosts ? shape_.between_hosts->longest_in_ring : bytes;
    if (bytes <= most) {
      program_.longest_message = std::max(program_.longest_message, bytes);
      append(what, aligned_runs(lists_of(step)), puts);
      return;
    }
    const auto parts = static_cast<int>((bytes + most - 1) / most);
    for (int k = 0; k < parts; ++k) {
      const Pieces share = cut(pieces, k, parts);
      program_.longest_message = std::max(program_.longest_message, most_in_slice(share));
      std::vector<Blocks> clipped;
      BlockLists lists;
      for (const auto& list : lists_of(step)) clipped.push_back(clip(list, share));
      for (const Blocks& list : clipped) lists.emplace_back(list);
      append(what, aligned_runs(lists), puts);
    }
  }

  /// What of the blocks lies in the pieces, both in one order.
  static Blocks clip(std::span<const Block> list, const Pieces& pieces) {
    Blocks clipped;
    std::size_t k = 0;
    for (const Piece& piece : pieces) {
      while (list[k].part != piece.part || list[k].hi <= piece.lo || piece.hi <= list[k].lo) ++k;
      for (; k < list.size() && list[k].part == piece.part && list[k].lo < piece.hi; ++k) {
        const Block& block = list[k];
        clipped.push_back({block.space, block.part, std::max(block.lo, piece.lo), std::min(block.hi, piece.hi)});
        if (piece.hi <= block.hi) break;
      }
    }
    return clipped;
  }

  /// Slots of carried messages, one message's behind the other's, as many of each as there is room for.
  void place_carried() {
    const auto lanes = static_cast<std::size_t>(program_.slicing.lanes);
    const auto chunks = static_cast<std::uint32_t>(program_.slicing.chunks);
    std::size_t bytes = 0;  // with one slot each
    for (const Carried& carried : program_.carried) bytes += carried.memory.lane_bytes * lanes;
    std::uint32_t slots = kMostSlots;
    while (slots > kLeastSlots && bytes * slots > kMostSlotBytes) --slots;
    for (Carried& carried : program_.carried) {
      carried.memory.slots = std::min(slots, chunks);
      std::size_t& end = program_.slot_bytes[carried.memory.on_host];
      carried.memory.place = end;
      end += carried.memory.lane_bytes * lanes * carried.memory.slots;
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

  gpu::Operand operand(const Block& block, Fraction lo, Fraction hi) const {
    const PartBytes& part = shape_.parts[block.part];
    const Slice slice = slice_of(block.part);
    gpu::Operand o{};
    o.bytes = part.bytes;
    o.stride = slice.bytes;
    Fraction begin = kZero;
    if (block.in_scratch()) {
      const Region& region = plan_.regions[block.space - kScratch];
      o.space = gpu::Space::scratch;
      o.base = slots_[region.slot];
      begin = region.lo;
    } else {
      o.space = block.space == kIn ? gpu::Space::in : gpu::Space::out;
      o.base = block.space == kIn ? part.in : part.out;
    }
    const std::int64_t den = std::lcm(std::lcm(std::int64_t{lo.den}, std::int64_t{hi.den}), std::int64_t{begin.den});
    if (den > INT32_MAX) throw UsageError("program: a part is cut into more than 2^31 pieces");
    const auto of_den = [&](Fraction at) { return static_cast<gpu::u32>(at.num * (den / at.den)); };
    o.den = static_cast<gpu::u32>(den);
    o.from = of_den(lo);
    o.to = of_den(hi);
    o.slot_from = of_den(begin);
    return o;
  }

  /// The blocks of all lists, cut where any list is: all name the same pieces in the same order.
  Runs aligned_runs(BlockLists lists) const {
    Runs runs;
    std::vector<Fraction> at;
    at.reserve(lists.size());
    for (const auto& list : lists) at.push_back(list.empty() ? kZero : list[0].lo);
    while (!lists[0].empty()) {
      Fraction hi = lists[0][0].hi;
      for (const auto& list : lists)
        if (list[0].hi < hi) hi = list[0].hi;
      std::vector<gpu::Operand> run;
      for (std::size_t k = 0; k < lists.size(); ++k) {
        run.push_back(operand(lists[k][0], at[k], hi));
        at[k] = hi;
        if (!(lists[k][0].hi == hi)) continue;
        lists[k] = lists[k].subspan(1);
        if (!lists[k].empty()) at[k] = lists[k][0].lo;
      }
      runs.push_back(std::move(run));
    }
    return runs;
  }

  /// A step's target, where that is none of this rank's, and its sources, where those are.
  BlockLists lists_of(const Step& step) const {
    const auto src = plan_.src(step), dst = plan_.dst(step);
    switch (step.kind) {
      case StepKind::send:
        return {src};
      case StepKind::recv:
        return {dst};
      case StepKind::recv_reduce:
      case StepKind::copy:
        return {dst, src};
      default: {
        BlockLists lists{dst};
        const Pieces pieces = joined(pieces_of(dst.data(), dst.data() + dst.size()));
        for (const auto& source : split(src, pieces, step.sources)) lists.push_back(source);
        return lists;
      }
    }
  }

  /// The lists of a reduction's sources, which follow each other: each names these pieces.
  static BlockLists split(std::span<const Block> all, const Pieces& pieces, std::uint32_t sources) {
    BlockLists lists;
    for (std::uint32_t s = 0; s < sources; ++s) {
      std::size_t count = 0;
      for (const Piece& piece : pieces)
        for (Fraction at = piece.lo; !(at == piece.hi); ++count) at = all[count].hi;
      lists.push_back(all.first(count));
      all = all.subspan(count);
    }
    return lists;
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
  std::size_t slices_;
  Program program_;
  std::vector<std::int32_t> place_of_;     // of ranks among this host's; empty: they are all
  std::vector<std::size_t> slots_;         // offsets of scratch slots
  std::vector<std::uint32_t> delays_;      // of steps
  std::vector<At> last_;                   // instruction of each step
  std::vector<std::optional<At>> needed_;  // of the other queue by each step
};

}  // namespace

Program program_of(const Plan& plan, const ProgramShape& shape, Slicing slicing) {
  return ProgramLowering(plan, shape, slicing).run();
}

std::size_t longest_message(const Plan& plan, const std::vector<PartBytes>& parts, std::size_t slices) {
  std::size_t longest = 0;
  for (const Step& step : plan.steps) {
    if (!talks(step)) continue;
    std::size_t bytes = 0;
    for (const Block& block : step.kind == StepKind::send ? plan.src(step) : plan.dst(step))
      bytes += most_bytes(slice_of(parts[block.part].bytes, slices), block.piece());
    longest = std::max(longest, bytes);
  }
  return longest;
}

}  // namespace lanecast
