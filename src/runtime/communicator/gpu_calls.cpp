// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU's memory: enqueued in the order of a stream, and looked after by whoever waits for them.
#include <algorithm>
#include <cstdio>

#include "runtime/agree/bootstrap_over.h"
#include "runtime/communicator/device_work.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/communicator/started.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"
#include "runtime/request/composed_call.h"

namespace lanecast {

Bootstrap Communicator::among(Gathering gathering) const {
  gathering.me = static_cast<int>(std::ranges::find(gathering.ranks, rank()) - gathering.ranks.begin());
  gathering.timeout_s = timeout_s_;
  return bootstrap_over(ground_.router, std::move(gathering));
}

Bootstrap Communicator::among_all(const std::string& what) {
  return among({.ranks = ground_.topology.everyone(), .what = what, .meanwhile = [this](auto...) {
                  gate_.ask(ground_.options.interrupt);
                }});
}

std::shared_ptr<GpuSide> Communicator::open_gpu(int device, std::optional<void*> stream) {
  const std::string what = "the first call on a GPU";
  std::optional<gpu::Stream> behind;
  if (stream) behind = static_cast<gpu::Stream>(*stream);
  auto side = std::make_shared<GpuSide>(
      among_all(what), ground_.topology,
      GpuOptions{device, behind, ground_.options.gpu_library_folders, ground_.options.kernel_cache,
                 ground_.options.allow_shared_gpu, ground_.options.max_ctas, timeout_s_,
                 [&](const gpu::Device& opened) {
                   return naming("LANECAST_GPU_MESSAGES", ground_.options, [&] {
                     return places_of_messages(ground_.options.gpu_messages, opened, ground_.router, rank(),
                                               ground_.around.hosts);
                   });
                 }},
      GpuNeighbours{ground_.around.hosts, [&](const Ranks& ranks) {
                      return among({.ranks = ranks, .what = what, .meanwhile = [this](auto...) {
                                      gate_.ask(ground_.options.interrupt);
                                    }});
                    }});
  side->choose_by(models().peers);
  say_why_staged(*side);
  if (hosts() > 1) {
    choosing_.driver_call_takes(side->driver_call_s(among_all(what)));
    const auto hear = [this] { gate_.ask(ground_.options.interrupt); };
    settle_gpu_links({ground_.router, ground_.topology, ground_.around.hosts, rank(), timeout_s_, ground_.rivals, hear},
                     choosing_, *side);
  }
  return side;
}

void Communicator::say_why_staged(const GpuSide& side) const {
  if (rank() != 0 || side.why_staged().empty() || !ground_.progress->is_first(side.why_staged())) return;
  std::fprintf(stderr,
               "lanecast: messages between hosts pass through the hosts' memory: %s, and whoever holds that driver may "
               "wait for a kernel that waits for the message; gpu_messages=\"direct\" has them lie on the GPUs all the "
               "same, \"staged\" says nothing (docs/gpu.md)\n",
               side.why_staged().c_str());
}

GpuSide& Communicator::gpu(int device, Lock& lock, std::optional<void*> stream) {
  if (!gpu_) {
    drain(lock, ground_.options.interrupt);
    if (device == kUnknownDevice)
      throw UsageError("rank " + std::to_string(rank()) + ": the buffers do not say on which GPU they lie; make the " +
                       "communicator with device=N");
    gpu_ = failing_.or_fail<UsageError>([&] { return open_gpu(device, stream); });
    failing_.opens(gpu_);
  }
  if (device != kUnknownDevice && device != gpu_->device())
    throw UsageError("rank " + std::to_string(rank()) + ": the buffers lie on GPU " + std::to_string(device) +
                     ", and this communicator uses GPU " + std::to_string(gpu_->device()));
  return *gpu_;
}

std::optional<StagedCall> Communicator::enqueue_on(GpuSide& side, const Call& call, GpuWay way, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = check(call, rank(), size());
  std::optional<StagedCall> rest;
  // A call of which a part is enqueued has peers that wait for the rest.
  failing_.or_fail<UsageError>([&] {
    Call planned = call;
    planned.reproducible = way == GpuWay::plan && choosing_.in_rank_order(call);  // peer memory always keeps that order
    if (way == GpuWay::peers)
      return side.enqueue(planned, in_place, peer_engine_from(choosing_.pinned_for(call)), stream);
    if (way == GpuWay::native) return look_after(side.enqueue_native(planned, in_place, *ground_.router, stream));
    GpuSide::Staged staged = side.prepare(
        planned, in_place,
        [&] { return choosing_.chosen_for_gpus(planned, {side.sends_directly(), side.has_groups()}); },
        *ground_.router);
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

void Communicator::enqueue_rest(GpuSide& side, const StagedCall& call, void* behind, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  try {
    if (behind != on) side.streams().order(static_cast<gpu::Stream>(behind), stream);
    side.enqueue(call, stream);
  } catch (const std::exception& error) {
    const std::unique_lock lock = gate_.enter();
    if (!gate_.failure()) failing_.fail(failure_of(error));
    throw;
  }
}

struct Communicator::Begun {
  bool needs_thread = false;       // which moves messages, or looks after the call
  std::optional<StagedCall> rest;  // that enqueue_rest() has to enqueue
};

template <class Begin>
std::shared_ptr<GpuSide> Communicator::enqueue_behind(const OnStream& where, const Begin& begin) {
  const std::unique_lock queue = gate_.enter_queue();
  std::shared_ptr<GpuSide> side;
  Begun begun;
  {
    std::unique_lock lock = gate_.enter();
    gate_.refuse_if_failed();
    gpu(where.device, lock, where.stream);
    side = gpu_;
    look_at_gpu();
    side->set_timeout(timeout_s_);
    begun = begin(*side, lock);
  }
  if (begun.needs_thread) hand_to_thread();
  if (begun.rest) enqueue_rest(*side, *begun.rest, where.stream, where.apart ? side->streams().own() : where.stream);
  return side;
}

std::shared_ptr<GpuSide> Communicator::enqueue_call(const OnStream& where, const Call& call) {
  return enqueue_behind(where, [&](GpuSide& side, Lock& lock) -> Begun {
    const GpuWay way = way_of(side, call, where.device, where.stream);
    open_for(side, call, way, where.stream, lock);
    void* on = where.stream;
    if (where.apart) {
      on = side.streams().own();
      if (way != GpuWay::plan) side.streams().order(static_cast<gpu::Stream>(where.stream), side.streams().own());
    }
    return {way != GpuWay::peers, enqueue_on(side, call, way, on)};
  });
}

std::shared_ptr<GpuSide> Communicator::enqueue_call(const OnStream& where, const ComposedOnGpu& call) {
  return enqueue_behind(where, [&](GpuSide& side, Lock&) -> Begun {
    require_as_compiled(side, call, where);
    return failing_.or_fail<UsageError>([&]() -> Begun {
      GpuSide::Staged staged = side.prepare(call.plan, call.in, call.out, *ground_.router);
      look_after(std::move(staged.host));
      return {true, std::move(staged.device)};
    });
  });
}

std::shared_ptr<DeviceWork> Communicator::work_on(std::shared_ptr<GpuSide> side) {
  const gpu::Stream own = side->streams().own();
  return std::make_shared<DeviceWork>(*this, std::move(side), own);
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

std::shared_ptr<ipc::SharedMemory> Communicator::allocate_symmetric(int device, std::size_t bytes) {
  std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  GpuSide& side = gpu(device, lock);
  if (hosts() > 1)
    throw UsageError("rank " + std::to_string(rank()) + ": symmetric memory is for the GPUs of one host, and these " +
                     "ranks are on " + std::to_string(hosts()));
  drain(lock, ground_.options.interrupt);
  std::shared_ptr<ipc::SharedMemory> memory;
  failing_.or_fail<UsageError>([&] { memory = side.allocate_symmetric(among_all("symmetric memory"), bytes); });
  return memory;
}

bool Communicator::open_window(std::shared_ptr<ipc::WindowMemory> memory) {
  const std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  return gpu_ && gpu_->open_window(std::move(memory));
}

std::uint64_t Communicator::calls_by_windows() {
  const std::unique_lock lock = gate_.enter();
  return gpu_ ? gpu_->calls_by_windows() : 0;
}

void Communicator::use_gpu(int device) {
  std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  gpu(device, lock);
}

}  // namespace lanecast
