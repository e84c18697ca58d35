// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and the barrier.
#include <base/quiet_thread.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ScopeExit.h>
#include <gil.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend.h"
#include "monitored_barrier.h"
#include "process_end.h"
#include "signals.h"
#include "types.h"

namespace lanecast_torch {
namespace {

// A message of no elements needs an address too.
const std::byte kNothing{};

lanecastMessage_t message_for(const SideBySide& tensor, int peer, int tag) {
  const Elements elements = moved(tensor.buffer());
  return {nullptr, nullptr, elements.count, elements.dtype, peer, tag};
}

void* address_of(const SideBySide& tensor) { return tensor.data() ? tensor.data() : const_cast<std::byte*>(&kNothing); }

bool on_gpu(const Tensors& tensors) { return tensors.size() == 1 && tensors[0].defined() && tensors[0].is_cuda(); }

/// A torch that is built for CUDA has its guard on machines without a GPU, too.
bool has_gpu() {
  return c10::impl::hasDeviceGuardImpl(c10::kCUDA) && c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount() > 0;
}

/// The GPU on which the ranks are to meet: the one named in the call, or to init_process_group; none: on the CPU. The
/// call's own device does not come this far in all versions of torch.
std::optional<c10::Device> meeting_place(const c10d::BarrierOptions& opts, const std::optional<c10::Device>& bound) {
  if (!opts.device_ids.empty()) return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(opts.device_ids[0]));
  return bound && bound->is_cuda() ? bound : std::nullopt;
}

}  // namespace

WorkPtr Backend::send(Tensors& tensors, int destination, int tag) {
  return refuse_at_the_end([&] { return post_send(tensors, destination, tag); });
}

WorkPtr Backend::recv(Tensors& tensors, int source, int tag) {
  return refuse_at_the_end([&] { return post_recv(tensors, source, tag); });
}

WorkPtr Backend::refuse_at_the_end(const std::function<WorkPtr()>& call) {
  if (!coalesced_) return call();
  try {
    return call();
  } catch (...) {
    if (!coalesced_->refusal) coalesced_->refusal = std::current_exception();
    return nullptr;
  }
}

WorkPtr Backend::post_send(Tensors& tensors, int destination, int tag) {
  const SideBySide data("send", "tensor", {only("send", "tensors", tensors)}, Access::read);
  if (on_gpu(tensors)) return move_on_device({OpType::SEND, "lanecast:send", tensors, {}}, data, destination);
  data.pack();
  lanecastMessage_t message = message_for(data, destination, tag);
  message.sendbuff = address_of(data);
  return launch_on_host({OpType::SEND, "lanecast:send", tensors, {}, true}, [&](HostWork& work) {
    work.keep(data.buffer());
    engine_->start_messages(work, {message});
  });
}

WorkPtr Backend::post_recv(Tensors& tensors, int source, int tag) {
  const SideBySide data("recv", "tensor", {only("recv", "tensors", tensors)});
  if (on_gpu(tensors)) return move_on_device({OpType::RECV, "lanecast:recv", tensors, tensors}, data, source);
  lanecastMessage_t message = message_for(data, source, tag);
  message.recvbuff = address_of(data);
  return launch_on_host({OpType::RECV, "lanecast:recv", tensors, tensors, true}, [&](HostWork& work) {
    work.deliver(data);
    work.received_from(source);
    engine_->start_messages(work, {message});
  });
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  TORCH_CHECK_VALUE(!on_gpu(tensors), "lanecast: recv: of CUDA tensors it needs a source rank, as over NCCL");
  const SideBySide data("recv", "tensor", {only("recv", "tensors", tensors)});
  TORCH_CHECK_VALUE(getSize() > 1, "lanecast: recv: there is no other rank in the group to receive from");
  lanecastMessage_t message = message_for(data, 0, tag);
  message.recvbuff = address_of(data);
  const auto work =
      c10::make_intrusive<HostWork>(describe({OpType::RECVANYSOURCE, "lanecast:recvAnySource", tensors, tensors}));
  work->deliver(data);
  // A thread for each, so that it holds up nothing else: such receives are few.
  lanecast::quiet_thread([engine = engine_, work, message, timeout = options_->timeout] {
    try {
      engine->receive_from_any(*work, message, timeout);
      work->launched();
    } catch (...) {
      work->launched(std::current_exception());
    }
  }).detach();
  return keep_if_coalescing(work);
}

WorkPtr Backend::barrier(const c10d::BarrierOptions& opts) {
  // Programs number devices for gloo as well, which meets on the CPU whatever they say.
  const bool on_cpu = options_->name == "gloo" || !has_gpu();
  if (const auto device = on_cpu ? std::nullopt : meeting_place(opts, getBoundDeviceId()))
    return barrier_on(*device, opts);
  return launch_on_host({OpType::BARRIER, "lanecast:barrier", {}, {}, opts.asyncOp}, [&](HostWork& work) {
    if (work.blocking())
      engine_->run_barrier(opts.timeout);
    else
      engine_->start_barrier(work, opts.timeout);
  });
}

WorkPtr Backend::barrier_on(c10::Device device, const c10d::BarrierOptions& opts) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  const auto work = c10::make_intrusive<DeviceWork>(describe({OpType::BARRIER, "lanecast:barrier", {}, {}}), engine_,
                                                    stream, DeviceWork::Wait::host);
  work->launch([&](Work& launched) {
    const at::Tensor token = at::empty({1}, at::TensorOptions().dtype(at::kByte).device(device));
    launched.keep(token);
    lanecastCall_t call{};
    call.collective = lanecastCollAllReduce;
    call.sendbuff = call.recvbuff = token.data_ptr();
    call.count = 1;
    call.datatype = lanecastUint8;
    call.op = lanecastMax;
    launched.start(*engine_, call, opts.timeout);
  });
  return keep_if_coalescing(work);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_for_all) {
  const Blocks blocks;
  const auto timeout = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  const lanecast::WithoutGil unlocked;
  const auto barrier = std::make_shared<MonitoredBarrier>(store_, getRank(), getSize(), monitored_barriers_++);
  const auto give_up = c10::make_scope_exit([&] { barrier->give_up(); });
  const auto patience = std::max(timeout, options_->timeout);
  run_hearing_signals([=] { barrier->pass(timeout, patience, wait_for_all); });
}

}  // namespace lanecast_torch
