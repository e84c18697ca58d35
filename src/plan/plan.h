// SPDX-License-Identifier: Apache-2.0
// A plan: what one rank does in a collective, as data. Proven by verify(), run by any executor, bound to counts late.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/kind.h"
#include "plan/block.h"
#include "plan/collective.h"

namespace lanecast {

enum class StepKind : std::uint8_t { send, recv, recv_reduce, copy, reduce, group };

inline constexpr std::int8_t kOpOfCall = -1;

struct Step {
  StepKind kind{};
  bool completes = false;      // the result holds every contribution: an average divides here, and only here
  std::int32_t stage = -1;     // chunk by chunk, stages happen side by side; -1: steps of none, which many plans have
  std::int8_t op = kOpOfCall;  // of what adds: a ReduceOp, where a plan has several
  std::int32_t peer = -1;      // send, recv, recv_reduce
  std::int32_t group = -1;     // group: index into Plan::groups
  std::uint32_t ordinal = 0;   // the k-th message to (from) this peer meets its k-th receive (send); groups alike
  std::uint32_t divisor = 0;   // of an average that completes here; 0: the number of ranks
  std::uint32_t sources = 1;   // reduce: src is this many lists, one after the other, each with the pieces of dst
  Range src;
  Range dst;
  Range deps;  // earlier steps that must have finished: read after write, write after read, write after write
};

using Ranks = std::vector<int>;
using PieceLists = std::vector<Pieces>;  // one list per member of a group of ranks

/// The members of a group step and the pieces of each; equal on all members but for an all-to-all. `own[k]`: what
/// ranks[k] brings (all_gather, gather), or ends with (reduce_scatter, scatter). One list for all where the vector is
/// whole (all_reduce, broadcast, reduce). all_to_all: what this rank sends to each member, then what it receives from
/// each.
struct Group {
  Kind kind{};
  Ranks ranks;
  PieceLists own;
  int root = 0;  // place among `ranks`, of the kinds that have one
  friend bool operator==(const Group&, const Group&) = default;
};

/// A value of [lo, hi) of a part, kept in a scratch slot for a while. Slots are reused; their size is that of the
/// largest region they ever hold, known when counts are bound.
struct Region {
  std::int32_t part = 0;
  Fraction lo = kZero;
  Fraction hi = kOne;
  std::int32_t slot = 0;
};

struct Plan {
  Collective collective;
  int rank = 0;
  std::string algorithm;
  std::vector<Step> steps;
  std::vector<Block> blocks;
  std::vector<std::uint32_t> dependencies;
  std::vector<Group> groups;
  std::vector<Region> regions;
  std::int32_t slots = 0;

  std::span<const Block> src(const Step& step) const { return {blocks.data() + step.src.first, step.src.count}; }
  std::span<const Block> dst(const Step& step) const { return {blocks.data() + step.dst.first, step.dst.count}; }
  std::span<const std::uint32_t> deps(const Step& step) const {
    return {dependencies.data() + step.deps.first, step.deps.count};
  }
  bool has_group(const Step& step) const {
    return step.group >= 0 && step.group < static_cast<std::int32_t>(groups.size());
  }
};

/// Pieces that `rank` hands to a group call, and those that it gets from it.
Pieces brought_to(const Group& group, int rank);
Pieces gained_from(const Group& group, int rank);

/// Is the step one side of a message?
inline bool talks(const Step& step) {
  return step.kind == StepKind::send || step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
}

std::string_view name_of(StepKind kind);

/// "step 3 of 12: recv from rank 2 out/part 1[0,1/2)"
std::string describe(const Plan& plan, std::size_t step);
/// The whole plan, a line per step.
std::string describe(const Plan& plan);

}  // namespace lanecast
