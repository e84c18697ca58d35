// SPDX-License-Identifier: Apache-2.0
#include "peers/slice_memory.h"

#include "device/gpu/beside_captures.h"
#include "peers/window_memory.h"

namespace lanecast::peers {

SliceMemory::SliceMemory(const std::shared_ptr<gpu::Device>& device, gpu::Address begin, std::size_t bytes)
    : device_(device), stream_(device), begin_(begin) {
  WindowMemory window(device, begin, bytes, nullptr);
  handle_ = window.handle();
  offset_ = window.offset();
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuCtxSynchronize(), "cuCtxSynchronize");
}

SliceMemory::SliceMemory(const std::shared_ptr<gpu::Device>& device, const gpu::IpcHandle& handle, std::size_t offset)
    : device_(device),
      handle_(handle),
      offset_(offset),
      opened_(std::in_place, device, handle),
      stream_(device),
      begin_(opened_->address() + offset) {}

void SliceMemory::copy(gpu::Address to, gpu::Address from, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  device_->check(device_->driver().copy(to, from, bytes, stream_.get()), "cuMemcpyAsync");
  device_->check(device_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

}  // namespace lanecast::peers
