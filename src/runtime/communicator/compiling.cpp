// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/compiling.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compose/lower.h"
#include "plan/verify.h"
#include "runtime/bound/in_place.h"
#include "runtime/request/call.h"

namespace lanecast {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // large enough that a message's latency does not count
constexpr std::size_t kMostChosenChunks = 16;

}  // namespace

OwnLink link_of(const WayTimes& times) { return {times.chain_link_s, times.chain.beta_s_per_byte}; }

void Compiling::check(bool reproducible) const {
  const int size = machine_.topology.size();
  if (composition_.size() != size)
    throw UsageError("composition: is for " + std::to_string(composition_.size()) + " ranks, but there are " +
                     std::to_string(size));
  if (!call_.counts.empty() && call_.counts.size() != static_cast<std::size_t>(composition_.parts()))
    throw UsageError("counts: needs one per part (" + std::to_string(composition_.parts()) + "), got " +
                     std::to_string(call_.counts.size()));
  // Keeps every sum of counts, and every offset in bytes, within 64 bits.
  const std::size_t most =
      SIZE_MAX / size_of(call_.dtype) / static_cast<std::size_t>(std::max(composition_.parts(), 1)) / 2;
  if (call_.count > most || std::ranges::any_of(call_.counts, [&](std::size_t count) { return count > most; }))
    throw UsageError("count: larger than any memory");
  if (call_.chunks < 0 || call_.chunks > kMostChunks)
    throw UsageError("chunks: " + std::to_string(call_.chunks) + " is not from 0 to " + std::to_string(kMostChunks));
  for (int r = 0; r < size; ++r) composition_.require_complete(r);
  for (const Primitive& p : composition_.primitives())
    if (p.kind == Primitive::Action::reduce && p.leaves.count > 1) check(p, reproducible);
}

void Compiling::check(const Primitive& p, bool reproducible) const {
  if (!supports(p.op, call_.dtype))
    throw UsageError(describe(composition_, p) + ": op " + std::string(name_of(p.op)) + " does not take dtype " +
                     std::string(name_of(call_.dtype)));
  if (p.op == ReduceOp::avg && size_of(call_.dtype) == 1)
    throw UsageError(describe(composition_, p) + ": sums of " + std::string(name_of(call_.dtype)) +
                     " end where the type does, and a composition's are on the way before they are divided; use a " +
                     "16-bit float");
  if (reproducible && is_float(call_.dtype))
    throw UsageError(describe(composition_, p) +
                     ": adds floats along the hierarchy, and this communicator promises reproducible sums; make one "
                     "without reproducible=True for it");
}

void Compiling::shape(int usual_chunks) {
  refined_ = refine(call_.composition);
  std::vector<std::size_t> counts(call_.counts.begin(), call_.counts.end());
  if (counts.empty()) counts.assign(composition_.parts(), call_.count);
  const std::size_t bytes = std::accumulate(counts.begin(), counts.end(), std::size_t{0}) * size_of(call_.dtype);
  const auto by_size = static_cast<int>(std::clamp(bytes / kChunkBytes, std::size_t{1}, kMostChosenChunks));
  shape_.dtype = call_.dtype;
  shape_.chunks = call_.chunks ? call_.chunks : usual_chunks ? usual_chunks : by_size;
  shape_.counts = refined_.counts(counts);
}

void Compiling::choose_ring(const WayTimes& times) {
  if (call_.shaping.ring != 0 || !call_.shaping.factors.empty() || call_.shaping.hierarchy) return;
  std::vector<std::size_t> bytes = shape_.counts;
  for (std::size_t& part : bytes) part *= size_of(shape_.dtype);
  Shaping shaping = call_.shaping;
  shaping.ring = ring_of_own_links(refined_.composition, bytes, machine_.topology, link_of(times));
  machine_ = Machine(machine_.topology, shaping);
}

void Compiling::refuse_transports() const {
  if (!call_.transports.empty())
    throw UsageError("transports: '" + call_.transports + "', but a GPU's memory goes by those of the communicator");
}

std::vector<Plan> Compiling::all_plans() const {
  std::vector<Plan> plans;
  for (const bool in_place : {false, true})
    for (int r = 0; r < composition_.size(); ++r) plans.push_back(lowered(r, in_place));
  return plans;
}

Plan Compiling::plan() const {
  const Collective what{Kind::composition, composition_.size(), false, 0, false, refined_.composition};
  const bool in_place = lies_in_place(what, rank_, shape_, call_.in, call_.out);
  if (call_.proven.value_or(composition_.size() <= kProvenRanks)) prove(in_place);
  Plan plan = lowered(rank_, in_place);
  if (!call_.transports.empty()) plan.algorithm += " over " + call_.transports;
  return plan;
}

void Compiling::prove(bool in_place) const {
  std::vector<Plan> plans;
  plans.reserve(composition_.size());
  for (int r = 0; r < composition_.size(); ++r) plans.push_back(lowered(r, in_place));
  verify(plans);
}

Plan Compiling::lowered(int rank, bool in_place) const { return lower(refined_.composition, rank, machine_, in_place); }

}  // namespace lanecast
