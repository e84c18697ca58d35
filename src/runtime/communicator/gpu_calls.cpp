// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "runtime/communicator/device_work.h"
#include "runtime/communicator/gpu_route.h"
#include "runtime/communicator/launched_calls.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/rounds.h"
#include "runtime/communicator/waits.h"
#include "runtime/request/slice_of_call.h"

namespace lanecast {
namespace {

/// Of a program that nobody has named one for: among the GPUs of a host each is as near as any other.
constexpr std::string_view kBetweenPeers = "direct";

/// "all_reduce sum of float32"
std::string shown(const Call& call) {
  std::string text(name_of(call.kind));
  if (Collective{call.kind}.reduces()) text += " " + std::string(name_of(call.op));
  return text + " of " + std::string(name_of(call.dtype));
}

}  // namespace

GpuCalls::GpuCalls(const Footing& footing, const Beside& beside)
    : ground_(footing.ground),
      gate_(footing.gate),
      failing_(footing.failing),
      waits_(footing.waits),
      calls_(beside.calls),
      launched_(beside.launched),
      carried_(beside.carried),
      rounds_(beside.rounds),
      choosing_(beside.choosing) {}

int GpuCalls::rank() const { return ground_.rank(); }

void GpuCalls::outside_gate(Lock& lock, const std::function<void()>& take) {
  std::exception_ptr error;
  lock.unlock();
  try {
    take();
  } catch (...) {
    error = std::current_exception();
  }
  gate_.enter_again(lock, ground_.options.interrupt);
  if (error) std::rethrow_exception(error);
  gate_.refuse_if_failed();
}

std::shared_ptr<const LaunchCounts> GpuCalls::counts_for(BetweenHosts& between, const BoundProgram& program,
                                                         const Call& call, Lock& lock) {
  const auto& parts = program.program().counted;
  if (!parts) return nullptr;
  std::shared_ptr<LaunchCounts> counts = between.counts().free(parts->rows.size());
  if (!counts) outside_gate(lock, [&] { counts = between.counts().make(parts->rows.size()); });
  counts->set(program, call);
  return counts;
}

CallBetweenHosts GpuCalls::prepare(BetweenHosts& between, const ComposedOnGpu& call, void* on, Lock& lock) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool captured = executor_->order_of_calls().capturing(stream);
  if (!between.has_room_for(call.program, captured))
    outside_gate(lock, [&] { between.make_room_for(call.program, captured); });
  BetweenHosts::Prepared prepared = between.prepare(call, *ground_.router, stream, captured);
  if (prepared.proxy) look_after_proxied(std::move(prepared.proxy));
  return std::move(prepared.device);
}

std::optional<CallBetweenHosts> GpuCalls::enqueue_on(GpuExecutor& executor, const Call& call, const Route& route,
                                                     void* on, Lock& lock) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = lanecast::check(call, rank(), ground_.size());
  std::optional<CallBetweenHosts> rest;
  // A call of which a part is enqueued has peers that wait for the rest.
  failing_.or_fail<UsageError>([&] {
    Call planned = call;
    const bool by_plan = route.backend == GpuBackend::proxied || route.backend == GpuBackend::program;
    planned.reproducible = by_plan && choosing_.in_rank_order(call);  // fused kernels see to it themselves
    if (route.backend == GpuBackend::program && choosing_.pinned_on_gpus(call).empty())
      planned.algorithm = kBetweenPeers;
    if (!by_plan) return enqueue_whole(executor, planned, in_place, route, stream);
    const auto choose = [&] { return choosing_.chosen_for_gpus(planned, on_gpus(executor)); };
    if (route.backend == GpuBackend::program)
      return executor.within_host()->programs.enqueue(planned, in_place, choose, stream);
    BetweenHosts& between = *executor.between_hosts();
    std::shared_ptr<const BoundProgram> program = between.find(planned, in_place);
    if (!program) {
      const Choice choice = choose();
      outside_gate(lock, [&] { program = between.bind(planned, in_place, choice); });
    }
    std::shared_ptr<const LaunchCounts> counts = counts_for(between, *program, planned, lock);
    rest = prepare(between, {std::move(program), planned.in, planned.out, std::move(counts)}, on, lock);
  });
  return rest;
}

void GpuCalls::enqueue_whole(GpuExecutor& executor, const Call& call, bool in_place, const Route& route, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  WithinHost* const host = executor.within_host();
  const auto make = [&] {
    if (route.backend == GpuBackend::peers) return host->engines.enqueue(call, in_place, route.way, stream);
    if (route.captured) return executor.nccl().capture(call, in_place, *host->peers, stream);
    look_after(executor.nccl().enqueue(call, in_place, *ground_.router, stream));
  };
  if (!route.way.turn || !route.way.turn->timed) return make();
  host->engines.trials().timed(size_class_of(route.way.traffic), route.way.turn->way, stream, make);
}

Choosing::OnGpus GpuCalls::on_gpus(const GpuExecutor& executor) {
  const BetweenHosts* const between = executor.between_hosts();
  return {between && between->is_direct(), between && between->has_groups()};
}

void GpuCalls::look_after(std::shared_ptr<OrderedCall> on_gpu) { last_ = calls_.look_after(std::move(on_gpu)); }

void GpuCalls::look_after_proxied(std::shared_ptr<Proxy> proxy) {
  if (!launched_.is_open()) return look_after(std::move(proxy));
  last_launched_ = launched_.look_after(std::move(proxy));
}

void GpuCalls::enqueue_rest(GpuExecutor& executor, const CallBetweenHosts& call, void* behind, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  try {
    if (behind != on) executor.order_of_calls().order(static_cast<gpu::Stream>(behind), stream);
    executor.between_hosts()->enqueue(call, stream);
  } catch (const std::exception& error) {
    fail_once(error);
    throw;
  }
}

void GpuCalls::fail_once(const std::exception& error) {
  const std::unique_lock lock = gate_.enter();
  if (!gate_.failure()) failing_.fail(failure_of(error));
}

struct GpuCalls::Begun {
  bool needs_thread = false;             // which moves messages, or looks after the call
  std::optional<CallBetweenHosts> rest;  // that enqueue_rest() has to enqueue
};

template <class Begin>
std::shared_ptr<DeviceWork> GpuCalls::enqueue_behind(const OnStream& where, const Begin& begin) {
  const Lock queue = gate_.enter_queue();
  std::shared_ptr<GpuExecutor> executor;
  Begun begun;
  {
    Lock lock = gate_.enter(ground_.options.interrupt);
    gate_.refuse_if_failed();
    open_for_call(where.device, lock, where.stream);
    executor = executor_;
    look();
    executor->set_timeout(waits_.timeout_s());
    begun = begin(*executor, lock);
  }
  const gpu::Stream own = executor->order_of_calls().own();
  if (begun.needs_thread) rounds_.hand_to_thread();
  if (begun.rest) enqueue_rest(*executor, *begun.rest, where.stream, where.apart ? own : where.stream);
  return where.apart ? std::make_shared<DeviceWork>(*this, std::move(executor), own) : nullptr;
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(const Call& call, const OnStream& where) {
  if (call.slice.count > 1 && lies_together(call.kind)) {
    lanecast::check(call, rank(), ground_.size());
    return enqueue_one(by_itself(call), where);
  }
  return enqueue_behind(where, [&](GpuExecutor& executor, Lock& lock) -> Begun {
    const Route route = route_of(executor, call, where, lock);
    trace([&] { return std::pair(shown(call), full_bytes(call, ground_.size())); });
    open_for(executor, route, where.stream, lock);
    void* on = where.stream;
    if (where.apart && route.backend != GpuBackend::proxied) {
      on = executor.order_of_calls().own();
      executor.order_of_calls().order(static_cast<gpu::Stream>(where.stream), executor.order_of_calls().own());
    }
    return {route.needs_thread(), enqueue_on(executor, call, route, on, lock)};
  });
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(const ComposedOnGpu& call, const OnStream& where) {
  return enqueue_behind(where, [&](GpuExecutor& executor, Lock& lock) -> Begun {
    require_as_compiled(executor, call, where);
    if (executor.between_hosts()) open_proxied(executor, where.stream, lock);
    return failing_.or_fail<UsageError>([&]() -> Begun {
      const BoundProgram& program = *call.program;
      trace([&] { return std::pair(program.text(), full_bytes(program.plan(), program.shape())); });
      if (WithinHost* const host = executor.within_host()) {
        const auto stream = static_cast<gpu::Stream>(where.stream);
        const gpu::Stream on = where.apart ? executor.order_of_calls().own() : stream;
        if (where.apart) executor.order_of_calls().order(stream, on);
        host->programs.enqueue(call.program, call.in, call.out, on);
        return {};
      }
      return {true, prepare(*executor.between_hosts(), call, where.stream, lock)};
    });
  });
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue(const GpuRequest& request, const OnStream& where) {
  return std::visit([&](const auto& asked) { return enqueue_one(asked, where); }, request);
}

}  // namespace lanecast
