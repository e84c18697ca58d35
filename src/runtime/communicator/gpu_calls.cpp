// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU's memory: enqueued in the order of a stream, and looked after by whoever waits for them.
#include <algorithm>
#include <cstdio>

#include "runtime/agree/bootstrap_over.h"
#include "runtime/communicator/device_work.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/communicator/shown.h"
#include "runtime/communicator/started.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"
#include "runtime/request/composed_call.h"

namespace lanecast {

Bootstrap Communicator::among(Gathering gathering) const {
  gathering.me = static_cast<int>(std::ranges::find(gathering.ranks, rank()) - gathering.ranks.begin());
  gathering.timeout_s = timeout_s_;
  return bootstrap_over(router_, std::move(gathering));
}

Bootstrap Communicator::among_all(const std::string& what) {
  return among(
      {.ranks = topology_.everyone(), .what = what, .meanwhile = [this](auto...) { ask(options_.interrupt); }});
}

std::shared_ptr<GpuExecutor> Communicator::open_gpu(int device, std::optional<void*> stream) {
  const std::string what = "the first call on a GPU";
  std::optional<gpu::Stream> behind;
  if (stream) behind = static_cast<gpu::Stream>(*stream);
  auto executor = std::make_shared<GpuExecutor>(
      among_all(what), topology_,
      GpuOptions{device, behind, options_.gpu_library_folders, options_.kernel_cache, options_.allow_shared_gpu,
                 options_.max_ctas, timeout_s_,
                 [&](const gpu::Device& opened) {
                   return naming("LANECAST_GPU_MESSAGES", options_, [&] {
                     return where_messages_lie(options_.gpu_messages, opened, router_, rank(), around_.hosts);
                   });
                 }},
      GpuNeighbours{around_.hosts, [&](const Ranks& ranks) {
                      return among(
                          {.ranks = ranks, .what = what, .meanwhile = [this](auto...) { ask(options_.interrupt); }});
                    }});
  executor->choose_by(models().peers);
  choosing_.gpus_are(gpu_kind(executor->kind_of_gpu()));
  say_why_staged(*executor);
  if (hosts() > 1) {
    choosing_.driver_call_takes(executor->driver_call_s(among_all(what)));
    const auto hear = [this] { ask(options_.interrupt); };
    settle_gpu_links({router_, topology_, around_.hosts, rank(), timeout_s_, rivals_, hear}, choosing_, *executor);
  }
  return executor;
}

void Communicator::say_why_staged(const GpuExecutor& executor) const {
  if (rank() != 0 || executor.why_staged().empty() || !progress_->is_first(executor.why_staged())) return;
  std::fprintf(stderr,
               "lanecast: messages between hosts pass through the hosts' memory: %s, and whoever holds that driver may "
               "wait for a kernel that waits for the message; gpu_messages=\"direct\" has them lie on the GPUs all the "
               "same, \"staged\" says nothing (docs/gpu.md)\n",
               executor.why_staged().c_str());
}

GpuExecutor& Communicator::gpu(int device, Lock& lock, std::optional<void*> stream) {
  if (!gpu_) {
    drain(lock, options_.interrupt);
    if (device == kUnknownDevice)
      throw UsageError("rank " + std::to_string(rank()) + ": the buffers do not say on which GPU they lie; make the " +
                       "communicator with device=N");
    gpu_ = or_fail<UsageError>([&] { return open_gpu(device, stream); });
    shown_->opens(gpu_);
  }
  if (device != kUnknownDevice && device != gpu_->device())
    throw UsageError("rank " + std::to_string(rank()) + ": the buffers lie on GPU " + std::to_string(device) +
                     ", and this communicator uses GPU " + std::to_string(gpu_->device()));
  return *gpu_;
}

std::unique_lock<std::mutex> Communicator::enter_queue() {
  refuse_entry();
  return std::unique_lock(queue_mutex_);
}

std::optional<CallBetweenHosts> Communicator::enqueue_on(GpuExecutor& executor, const Call& call, GpuBackend backend,
                                                         void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = check(call, rank(), size());
  std::optional<CallBetweenHosts> rest;
  // A call of which a part is enqueued has peers that wait for the rest.
  or_fail<UsageError>([&] {
    Call planned = call;
    const bool by_plan = backend == GpuBackend::plan || backend == GpuBackend::program;
    planned.reproducible = by_plan && choosing_.in_rank_order(call);  // peer memory always keeps that order
    if (backend == GpuBackend::peers)
      return executor.enqueue(planned, in_place, peer_engine_from(choosing_.pinned_for(call)), stream);
    if (backend == GpuBackend::native) return look_after(executor.enqueue_native(planned, in_place, *router_, stream));
    const auto choose = [&] {
      return choosing_.chosen_for_gpus(planned, {executor.sends_directly(), executor.has_groups()});
    };
    if (backend == GpuBackend::program) return executor.enqueue(planned, in_place, choose().algorithm, stream);
    GpuExecutor::Prepared staged = executor.prepare(planned, in_place, choose, *router_);
    look_after(std::move(staged.host));
    rest = std::move(staged.device);
  });
  return rest;
}

void Communicator::look_after(std::shared_ptr<OrderedCall> on_gpu) {
  auto started = std::make_shared<Started>();
  started->on_gpu = std::move(on_gpu);
  started->deadline.timeout_s = timeout_s_;
  last_on_gpu_ = started->work;
  queue(started);
}

void Communicator::enqueue_rest(GpuExecutor& executor, const CallBetweenHosts& call, void* behind, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  try {
    if (behind != on) executor.order_of_calls().order(static_cast<gpu::Stream>(behind), stream);
    executor.enqueue(call, stream);
  } catch (const std::exception& error) {
    const std::unique_lock lock = enter();
    if (!failure_) fail(failure_of(error));
    throw;
  }
}

struct Communicator::Begun {
  bool needs_thread = false;             // which moves messages, or looks after the call
  std::optional<CallBetweenHosts> rest;  // that enqueue_rest() has to enqueue
};

template <class Begin>
std::shared_ptr<GpuExecutor> Communicator::enqueue_behind(const OnStream& where, const Begin& begin) {
  const std::unique_lock queue = enter_queue();
  std::shared_ptr<GpuExecutor> executor;
  Begun begun;
  {
    std::unique_lock lock = enter();
    refuse_if_failed();
    gpu(where.device, lock, where.stream);
    executor = gpu_;
    look_at_gpu();
    executor->set_timeout(timeout_s_);
    begun = begin(*executor, lock);
  }
  if (begun.needs_thread) hand_to_thread();
  if (begun.rest)
    enqueue_rest(*executor, *begun.rest, where.stream, where.apart ? executor->order_of_calls().own() : where.stream);
  return executor;
}

std::shared_ptr<GpuExecutor> Communicator::enqueue_call(const OnStream& where, const Call& call) {
  return enqueue_behind(where, [&](GpuExecutor& executor, Lock& lock) -> Begun {
    const GpuBackend backend = backend_of(executor, call, where.device, where.stream);
    open_for(executor, call, backend, where.stream, lock);
    void* on = where.stream;
    if (where.apart) {
      on = executor.order_of_calls().own();
      if (backend != GpuBackend::plan)
        executor.order_of_calls().order(static_cast<gpu::Stream>(where.stream), executor.order_of_calls().own());
    }
    const bool needs_thread = backend == GpuBackend::plan || backend == GpuBackend::native;
    return {needs_thread, enqueue_on(executor, call, backend, on)};
  });
}

std::shared_ptr<GpuExecutor> Communicator::enqueue_call(const OnStream& where, const ComposedOnGpu& call) {
  return enqueue_behind(where, [&](GpuExecutor& executor, Lock&) -> Begun {
    require_as_compiled(executor, call, where);
    return or_fail<UsageError>([&]() -> Begun {
      if (call.program) {
        gpu::Stream on = static_cast<gpu::Stream>(where.stream);
        if (where.apart) executor.order_of_calls().order(on, std::exchange(on, executor.order_of_calls().own()));
        executor.enqueue(call.program, call.in, call.out, on);
        return {};
      }
      GpuExecutor::Prepared staged = executor.prepare(call.plan, call.in, call.out, *router_);
      look_after(std::move(staged.host));
      return {true, std::move(staged.device)};
    });
  });
}

std::shared_ptr<DeviceWork> Communicator::work_on(std::shared_ptr<GpuExecutor> executor) {
  const gpu::Stream own = executor->order_of_calls().own();
  return std::make_shared<DeviceWork>(*this, std::move(executor), own);
}

void Communicator::enqueue(const Call& call, int device, void* stream) {
  enqueue_call({stream, device, /*apart=*/false}, call);
}

std::shared_ptr<DeviceWork> Communicator::enqueue_async(const Call& call, int device, void* stream) {
  return work_on(enqueue_call({stream, device, /*apart=*/true}, call));
}

void Communicator::enqueue(const ComposedOnGpu& call, int device, void* stream) {
  enqueue_call({stream, device, /*apart=*/false}, call);
}

std::shared_ptr<DeviceWork> Communicator::enqueue_async(const ComposedOnGpu& call, int device, void* stream) {
  return work_on(enqueue_call({stream, device, /*apart=*/true}, call));
}

std::shared_ptr<peers::SharedMemory> Communicator::allocate_symmetric(int device, std::size_t bytes) {
  std::unique_lock lock = enter();
  refuse_if_failed();
  GpuExecutor& executor = gpu(device, lock);
  if (hosts() > 1)
    throw UsageError("rank " + std::to_string(rank()) + ": symmetric memory is for the GPUs of one host, and these " +
                     "ranks are on " + std::to_string(hosts()));
  drain(lock, options_.interrupt);
  std::shared_ptr<peers::SharedMemory> memory;
  or_fail<UsageError>([&] { memory = executor.allocate_symmetric(among_all("symmetric memory"), bytes); });
  return memory;
}

bool Communicator::open_window(std::shared_ptr<peers::WindowMemory> memory) {
  const std::unique_lock lock = enter();
  refuse_if_failed();
  return gpu_ && gpu_->open_window(std::move(memory));
}

std::uint64_t Communicator::calls_by_windows() {
  const std::unique_lock lock = enter();
  return gpu_ ? gpu_->calls_by_windows() : 0;
}

void Communicator::use_gpu(int device) {
  std::unique_lock lock = enter();
  refuse_if_failed();
  gpu(device, lock);
}

}  // namespace lanecast
