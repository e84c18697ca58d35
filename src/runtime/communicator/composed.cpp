// SPDX-License-Identifier: Apache-2.0
// Compositions made ready to run: compiled, and bound to their buffers, or staged for a GPU's.
#include <algorithm>

#include "program/delays.h"
#include "runtime/bound/in_place.h"
#include "runtime/communicator/compiling.h"
#include "runtime/communicator/parts.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/wires/transports_by_level.h"

namespace lanecast {
namespace {

/// Planning knows neither the rank nor what it is for.
template <class Part>
auto with_rank(int rank, const char* what, const Part& part) {
  try {
    return part();
  } catch (const UsageError& error) {
    throw UsageError("rank " + std::to_string(rank) + ": " + what + ": " + error.what());
  }
}

constexpr const char* kCompile = "compile";

/// Throws UsageError where these buffers lie to each other as those do not that the plan was made for.
void require_placed_alike(const Plan& plan, const Shape& shape, const void* in, const void* out) {
  with_rank(plan.rank, "other buffers", [&] {
    if (lies_in_place(plan.collective, plan.rank, shape, in, out) != plan.collective.in_place)
      throw UsageError(plan.collective.in_place ? "the call was bound in place, and these are not"
                                                : "the call was bound out of place, and these are in place");
  });
}

}  // namespace

std::shared_ptr<BoundCall> CallBinder::bind(const ComposedCall& call) {
  return with_rank(ground_.rank(), kCompile, [&] {
    Compiling compiling(call, ground_.topology, ground_.rank());
    compiling.check(ground_.options.reproducible.value_or(false));
    compiling.shape(ground_.options.chunks);
    const auto prepared = std::make_shared<PreparedPlan>(compiling.plan());
    if (!call.transports.empty())
      prepared->transports =
          transports_by_level(*ground_.router, compiling.machine().topology, ground_.rank(), call.transports);
    // A pipeline is full when each stage works on a chunk of its own.
    ExecutorOptions executor = ground_.options.executor;
    executor.chunks_in_flight = std::max(executor.chunks_in_flight, compiling.machine().stages() + 1);
    const std::unique_lock lock = gate_.enter();
    gate_.refuse_if_failed();
    auto bound = std::make_shared<BoundCall>();
    bound->execution = plans_->bind(prepared, compiling.shape(), executor);
    bound->in = static_cast<const std::byte*>(call.in);
    bound->out = static_cast<std::byte*>(call.out);
    return bound;
  });
}

void Communicator::rebind(BoundCall& call, const void* in, void* out) {
  const std::unique_lock lock = parts_->gate.enter();
  const Plan& plan = call.execution->plan();
  if (!call.work->done())
    throw UsageError("rank " + std::to_string(plan.rank) +
                     ": other buffers: this call is under way; wait for it first");
  require_placed_alike(plan, call.execution->shape(), in, out);
  call.in = static_cast<const std::byte*>(in);
  call.out = static_cast<std::byte*>(out);
}

ComposedOnGpu GpuCalls::compile(const ComposedCall& call, int device) {
  Shape shape;
  std::vector<Plan> all;  // of all ranks, where they decide how parts are cut, or are proven
  Plan plan = with_rank(rank(), kCompile, [&] {
    Compiling compiling(call, ground_.topology, rank());
    compiling.check(ground_.options.reproducible.value_or(false));
    compiling.shape(ground_.options.chunks);
    compiling.refuse_transports();
    if (ground_.hosts() == 1) compiling.choose_ring(gpu_kind(kind()).times);
    if (ground_.hosts() == 1 || ground_.size() <= kProvenRanks) all = compiling.all_plans();
    shape = compiling.shape();
    return compiling.plan();
  });
  std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  gate_.refuse_without_threads();
  GpuExecutor& executor = open_for_call(device, lock);
  require_usable(executor.own(), call.in, call.out, call.dtype, device);
  if (BetweenHosts* const between = executor.between_hosts())
    return with_rank(rank(), kCompile, [&]() -> ComposedOnGpu {
      shape.chunks = std::max(shape.chunks, BetweenHosts::least_chunks(full_bytes(plan, shape)));
      if (!all.empty()) between->prove({all.begin(), all.begin() + ground_.size()}, shape);
      ComposedOnGpu bound{nullptr, call.in, call.out};
      outside_gate(lock, [&] { bound.program = between->bind(std::move(plan), std::move(shape)); });
      return bound;
    });
  open_programs(executor, nullptr, lock);
  return with_rank(rank(), kCompile, [&]() -> ComposedOnGpu {
    const InHostPrograms& programs = executor.within_host()->programs;
    std::vector<std::int32_t> stages = stages_of(all);
    const Slicing slicing =
        programs.slicing_of(all, !stages.empty(), shape, call.chunks ? call.chunks : ground_.options.chunks);
    return {programs.bind(std::move(plan), std::move(shape), slicing, std::move(stages)), call.in, call.out};
  });
}

void GpuCalls::require_as_compiled(GpuExecutor& executor, const ComposedOnGpu& call, const OnStream& where) const {
  const Shape& shape = call.program->shape();
  if (executor.between_hosts()) gate_.refuse_without_threads();
  require_usable(executor.own(), call.in, call.out, shape.dtype, where.device);
  require_placed_alike(call.program->plan(), shape, call.in, call.out);
}

}  // namespace lanecast
