// SPDX-License-Identifier: Apache-2.0
// Compositions made ready to run: checked, lowered for this machine, proven, and bound to their buffers.
#include <algorithm>
#include <numeric>

#include "compose/lower.h"
#include "compose/refine.h"
#include "plan/verify.h"
#include "runtime/carriers.h"
#include "runtime/overlap.h"
#include "runtime/persistent.h"
#include "runtime/started.h"

namespace lanecast {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // large enough that a message's latency does not count
constexpr std::size_t kMostChosenChunks = 16;

class Compiling {
 public:
  Compiling(const ComposedCall& call, const Topology& topology, int rank)
      : call_(call), composition_(*call.composition), rank_(rank), machine_(topology, call.shaping) {}

  void check(bool reproducible) const {
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
      if (p.kind == Primitive::Kind::reduce && p.leaves.count > 1) check(p, reproducible);
  }

  /// After check().
  void shape(int usual_chunks) {
    refined_ = refine(call_.composition);
    std::vector<std::size_t> counts(call_.counts.begin(), call_.counts.end());
    if (counts.empty()) counts.assign(composition_.parts(), call_.count);
    const std::size_t bytes = std::accumulate(counts.begin(), counts.end(), std::size_t{0}) * size_of(call_.dtype);
    const auto by_size = static_cast<int>(std::clamp(bytes / kChunkBytes, std::size_t{1}, kMostChosenChunks));
    shape_.dtype = call_.dtype;
    shape_.chunks = call_.chunks ? call_.chunks : usual_chunks ? usual_chunks : by_size;
    shape_.counts = refined_.counts(counts);
  }

  std::shared_ptr<PreparedPlan> plan() const {
    const Collective what{Kind::composition, composition_.size(), false, 0, false, refined_.composition};
    const bool in_place = lies_in_place(what, rank_, shape_, call_.in, call_.out);
    if (call_.proven.value_or(composition_.size() <= kProvenRanks)) prove(in_place);
    Plan plan = lower(refined_.composition, rank_, machine_, in_place);
    if (!call_.transports.empty()) plan.algorithm += " over " + call_.transports;
    return std::make_shared<PreparedPlan>(std::move(plan));
  }

  const Shape& shape() const { return shape_; }
  const Machine& machine() const { return machine_; }

 private:
  void check(const Primitive& p, bool reproducible) const {
    if (!supports(p.op, call_.dtype))
      throw UsageError(describe(composition_, p) + ": op " + std::string(name_of(p.op)) + " does not take dtype " +
                       std::string(name_of(call_.dtype)));
    if (reproducible && is_float(call_.dtype))
      throw UsageError(describe(composition_, p) +
                       ": adds floats along the hierarchy, and this communicator promises reproducible sums; make one "
                       "without reproducible=True for it");
  }

  void prove(bool in_place) const {
    std::vector<Plan> plans;
    plans.reserve(composition_.size());
    for (int r = 0; r < composition_.size(); ++r) plans.push_back(lower(refined_.composition, r, machine_, in_place));
    verify(plans);
  }

  const ComposedCall& call_;
  const Composition& composition_;
  int rank_;
  Machine machine_;
  Refined refined_;
  Shape shape_;
};

}  // namespace

std::shared_ptr<Communicator::Started> Communicator::bind(const ComposedCall& call) {
  try {
    Compiling compiling(call, topology_, rank());
    compiling.check(options_.reproducible.value_or(false));
    compiling.shape(options_.chunks);
    const auto prepared = compiling.plan();
    if (!call.transports.empty())
      prepared->carriers = carriers(*router_, compiling.machine().topology, rank(), call.transports);
    // A pipeline is full when each stage works on a chunk of its own.
    ExecutorOptions executor = options_.executor;
    executor.chunks_in_flight = std::max(executor.chunks_in_flight, compiling.machine().stages() + 1);
    const std::unique_lock lock = enter();
    refuse_if_failed();
    auto bound = std::make_shared<Started>();
    bound->execution = plans_->bind(prepared, compiling.shape(), executor);
    bound->in = static_cast<const std::byte*>(call.in);
    bound->out = static_cast<std::byte*>(call.out);
    return bound;
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(rank()) + ": compile: " + error.what());
  }
}

void PersistentCall::rebind(const void* in, void* out) {
  const std::unique_lock lock = communicator_.enter();
  const Plan& plan = call_->execution->plan();
  const std::string me = "rank " + std::to_string(plan.rank) + ": other buffers: ";
  if (!call_->work->done()) throw UsageError(me + "this call is under way; wait for it first");
  if (lies_in_place(plan.collective, plan.rank, call_->execution->shape(), in, out) != plan.collective.in_place)
    throw UsageError(me + (plan.collective.in_place ? "the call was bound in place, and these are not"
                                                    : "the call was bound out of place, and these are in place"));
  call_->in = static_cast<const std::byte*>(in);
  call_->out = static_cast<std::byte*>(out);
}

}  // namespace lanecast
