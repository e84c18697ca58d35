// SPDX-License-Identifier: Apache-2.0
#include "peers/window_memory.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "device/gpu/beside_captures.h"

namespace lanecast::peers {

WindowMemory::WindowMemory(std::shared_ptr<gpu::Device> device, std::size_t bytes)
    : device_(std::move(device)),
      own_(std::in_place, device_, bytes),
      begin_(own_->address()),
      bytes_(bytes),
      handle_(own_->ipc_handle()) {}

WindowMemory::WindowMemory(std::shared_ptr<gpu::Device> device, gpu::Address begin, std::size_t bytes,
                           std::shared_ptr<void> keep)
    : device_(std::move(device)), keep_(std::move(keep)), begin_(begin), bytes_(bytes) {
  const gpu::Device::Current current(*device_);
  const gpu::Driver& driver = device_->driver();
  const gpu::BesideCaptures beside(driver);
  gpu::Address base = 0;
  std::size_t whole = 0;
  if (driver.cuMemGetAddressRange(&base, &whole, begin) == gpu::kSuccess && begin + bytes <= base + whole &&
      driver.cuIpcGetMemHandle(&handle_, base) == gpu::kSuccess) {
    offset_ = begin - base;
    return;
  }
  try {
    offset_ = begin - pieces_.emplace(device_, begin, bytes).begin();
  } catch (const UsageError& error) {
    throw UsageError("memory: " + std::to_string(bytes) + " bytes on GPU " + std::to_string(device_->ordinal()) +
                     " that no other process can map: " + error.what());
  }
}

void WindowMemory::retire() {
  const gpu::Device::Current current(*device_);
  device_->driver().cuCtxSynchronize();  // its error would be one that others have raised
  // Release: whoever sees it sees the work done.
  retired_.store(true, std::memory_order_release);
}

}  // namespace lanecast::peers
