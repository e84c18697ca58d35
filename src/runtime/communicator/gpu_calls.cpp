// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/gpu_calls.h"

#include "runtime/communicator/device_work.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/rounds.h"
#include "runtime/communicator/waits.h"

namespace lanecast {

GpuCalls::GpuCalls(const Footing& footing, const Beside& beside)
    : ground_(footing.ground),
      gate_(footing.gate),
      failing_(footing.failing),
      waits_(footing.waits),
      calls_(beside.calls),
      rounds_(beside.rounds),
      choosing_(beside.choosing) {}

int GpuCalls::rank() const { return ground_.rank(); }

std::optional<StagedCall> GpuCalls::enqueue_on(GpuSide& side, const Call& call, Way way, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = lanecast::check(call, rank(), ground_.size());
  std::optional<StagedCall> rest;
  // A call of which a part is enqueued has peers that wait for the rest.
  failing_.or_fail<UsageError>([&] {
    Call planned = call;
    planned.reproducible = way == Way::plan && choosing_.in_rank_order(call);  // peer memory always keeps that order
    if (way == Way::peers) return side.enqueue(planned, in_place, peer_engine_from(choosing_.pinned_for(call)), stream);
    if (way == Way::native) return look_after(side.enqueue_native(planned, in_place, *ground_.router, stream));
    GpuSide::Staged staged = side.prepare(
        planned, in_place,
        [&] { return choosing_.chosen_for_gpus(planned, {side.sends_directly(), side.has_groups()}); },
        *ground_.router);
    look_after(std::move(staged.host));
    rest = std::move(staged.device);
  });
  return rest;
}

void GpuCalls::look_after(std::shared_ptr<OrderedCall> on_gpu) { last_ = calls_.look_after(std::move(on_gpu)); }

void GpuCalls::enqueue_rest(GpuSide& side, const StagedCall& call, void* behind, void* on) {
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

struct GpuCalls::Begun {
  bool needs_thread = false;       // which moves messages, or looks after the call
  std::optional<StagedCall> rest;  // that enqueue_rest() has to enqueue
};

template <class Begin>
std::shared_ptr<DeviceWork> GpuCalls::enqueue_behind(const OnStream& where, const Begin& begin) {
  const std::unique_lock queue = gate_.enter_queue();
  std::shared_ptr<GpuSide> side;
  Begun begun;
  {
    Lock lock = gate_.enter();
    gate_.refuse_if_failed();
    open_for_call(where.device, lock, where.stream);
    side = side_;
    look();
    side->set_timeout(waits_.timeout_s());
    begun = begin(*side, lock);
  }
  const gpu::Stream own = side->streams().own();
  if (begun.needs_thread) rounds_.hand_to_thread();
  if (begun.rest) enqueue_rest(*side, *begun.rest, where.stream, where.apart ? own : where.stream);
  return where.apart ? std::make_shared<DeviceWork>(*this, std::move(side), own) : nullptr;
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(const Call& call, const OnStream& where) {
  return enqueue_behind(where, [&](GpuSide& side, Lock& lock) -> Begun {
    const Way way = way_of(side, call, where);
    open_for(side, call, way, where.stream, lock);
    void* on = where.stream;
    if (where.apart) {
      on = side.streams().own();
      if (way != Way::plan) side.streams().order(static_cast<gpu::Stream>(where.stream), side.streams().own());
    }
    return {way != Way::peers, enqueue_on(side, call, way, on)};
  });
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(const ComposedOnGpu& call, const OnStream& where) {
  return enqueue_behind(where, [&](GpuSide& side, Lock&) -> Begun {
    require_as_compiled(side, call, where);
    return failing_.or_fail<UsageError>([&]() -> Begun {
      GpuSide::Staged staged = side.prepare(call.plan, call.in, call.out, *ground_.router);
      look_after(std::move(staged.host));
      return {true, std::move(staged.device)};
    });
  });
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue(const GpuRequest& request, const OnStream& where) {
  return std::visit([&](const auto& asked) { return enqueue_one(asked, where); }, request);
}

}  // namespace lanecast
