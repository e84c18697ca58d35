// SPDX-License-Identifier: Apache-2.0
// What the group's communicator does on a GPU.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "engine.h"
#include "errors.h"

namespace lanecast_torch {

void Engine::open(c10::Device device) {
  const auto lock = enter();
  check_core(lanecastCommSetDevice(comm_, device.index()));
}

void Engine::enqueue(const lanecastCall_t& call, const c10::Stream& stream) {
  const auto lock = enter();
  check_core(lanecastEnqueue(&call, stream.device_index(), stream.native_handle(), comm_));
}

void Engine::enqueued(std::shared_ptr<const c10::Event> done) {
  const std::lock_guard lock(mutex_);
  last_on_device_ = std::move(done);
}

c10::Stream Engine::own_stream(c10::Device device) {
  const std::lock_guard lock(mutex_);
  if (!own_stream_ || own_stream_->device() != device)
    own_stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return *own_stream_;
}

std::exception_ptr Engine::device_error() {
  const std::lock_guard lock(mutex_);
  lanecastResult_t met = lanecastSuccess;
  if (comm_) lanecastCommGetAsyncError(comm_, &met);
  return comm_ ? exception_for(met, lanecastGetLastError(comm_)) : nullptr;
}

bool Engine::device_idle() {
  const std::lock_guard lock(mutex_);
  try {
    return !last_on_device_ || last_on_device_->query();
  } catch (const std::exception&) {  // a device that has failed does nothing more
    return true;
  }
}

}  // namespace lanecast_torch
