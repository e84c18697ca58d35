// SPDX-License-Identifier: Apache-2.0
// What the group's communicator does on a GPU.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "engine.h"
#include "errors.h"

namespace lanecast_torch {

void Engine::open(c10::Device device) {
  const Entry entry(*this);
  set_core_timeout(c10d::kUnsetTimeout);
  check_core(lanecastCommSetDevice(comm_, device.index()));
}

void Engine::let_peers_map(const void* buffer) {
  const Entry entry(*this);
  let_peers_map_locked(buffer);
}

void Engine::let_peers_map_locked(const void* buffer) {
  const std::shared_ptr<const Pool::Segment> segment = Pool::instance().find(buffer);
  if (!segment || registered_.count(segment->number()) != 0) return;
  int registered = 0;
  check_core(lanecastCommRegister(segment->memory(), &registered, comm_));
  if (!registered) return;  // the GPU is not open yet, perhaps
  std::erase_if(registered_, [](const auto& known) { return known.second.expired(); });
  registered_.emplace(segment->number(), segment);
}

std::uint64_t Engine::calls_without_copies() {
  const Entry entry(*this);
  unsigned long long calls = 0;
  check_core(lanecastCommRegisteredCalls(comm_, &calls));
  return calls;
}

void Engine::enqueue(const lanecastCall_t& call, const c10::Stream& stream, std::chrono::milliseconds timeout) {
  const Entry entry(*this);
  set_core_timeout(timeout);
  let_peers_map_locked(call.sendbuff);
  let_peers_map_locked(call.recvbuff);
  check_core(lanecastEnqueue(&call, stream.device_index(), stream.native_handle(), comm_));
}

void Engine::enqueue_messages(const std::vector<lanecastMessage_t>& messages, const c10::Stream& stream) {
  const Entry entry(*this);
  set_core_timeout(c10d::kUnsetTimeout);
  check_core(
      lanecastEnqueueBatch(messages.data(), messages.size(), stream.device_index(), stream.native_handle(), comm_));
}

bool Engine::has_peer_memory() {
  const Entry entry(*this);
  int has = 0;
  if (!has_peer_memory_) check_core(lanecastCommHasPeerMemory(comm_, &has));
  return has_peer_memory_ |= has == 1;
}

bool Engine::has_messages() {
  const Entry entry(*this);
  int has = 0;
  if (!has_messages_) check_core(lanecastCommHasMessages(comm_, &has));
  return has_messages_ |= has == 1;
}

void Engine::enqueued(const c10::Stream& stream, std::shared_ptr<const c10::Event> done) {
  const Lock lock(*this);
  last_on_device_[stream.id()] = std::move(done);
}

c10::Stream Engine::own_stream(c10::Device device) {
  const Lock lock(*this);
  if (!own_stream_ || own_stream_->device() != device)
    own_stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return *own_stream_;
}

c10::Stream Engine::message_stream(c10::Device device, bool sends, int peer) {
  const Lock lock(*this);
  const std::pair channel(sends, peer);
  auto known = message_streams_.find(channel);
  if (known == message_streams_.end()) {
    // Of the pool that others use less: on a stream that two channels share, they wait for each other.
    const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, true);
    known = message_streams_.emplace(channel, stream).first;
  }
  return known->second;
}

std::exception_ptr Engine::device_error() {
  const Lock lock(*this);
  lanecastResult_t met = lanecastSuccess;
  if (comm_) lanecastCommGetAsyncError(comm_, &met);
  return comm_ ? exception_for(under_way_->note(met), last_error()) : nullptr;
}

bool Engine::device_idle() {
  const std::lock_guard lock(mutex_);  // not by Lock, which throws: a destructor may ask
  try {
    return std::all_of(last_on_device_.begin(), last_on_device_.end(),
                       [](const auto& last) { return last.second->query(); });
  } catch (const std::exception&) {  // a device that has failed does nothing more
    return true;
  }
}

}  // namespace lanecast_torch
