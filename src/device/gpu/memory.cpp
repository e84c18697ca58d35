// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/gpu/beside_captures.h"
#include "device/gpu/stream.h"

namespace lanecast::gpu {
namespace {

/// Of whole pages of 2 MiB: the driver maps what is a little longer by smaller ones, which engines and kernels go
/// through slower.
std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return bytes < kPage ? std::max<std::size_t>(bytes, 1) : (bytes + kPage - 1) / kPage * kPage;
}

Owned<Address> allocate(std::shared_ptr<Device> device, std::size_t bytes) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  Address address = 0;
  driver.check(driver.allocate(&address, bytes), "cuMemAlloc");
  return {std::move(device), address, driver.cuMemFree};
}

Owned<void*> pin(std::shared_ptr<Device> device, std::size_t bytes) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  void* host = nullptr;
  driver.check(driver.pin(&host, bytes), "cuMemHostAlloc");
  return {std::move(device), host, driver.cuMemFreeHost};
}

Owned<Address> open(std::shared_ptr<Device> device, const IpcHandle& handle) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  Address address = 0;
  driver.check(driver.open_peer(&address, handle), "cuIpcOpenMemHandle");
  return {std::move(device), address, driver.cuIpcCloseMemHandle};
}

}  // namespace

DeviceMemory::DeviceMemory(const std::shared_ptr<Device>& device, std::size_t bytes)
    : memory_(allocate(device, whole_pages(bytes))), bytes_(bytes) {
  // On a stream of its own: the default one would wait for all others of the process, and spoil a capture.
  const OwnedStream stream(device);
  const Device::Current current(*device);
  const BesideCaptures beside(device->driver());
  device->check(device->driver().cuMemsetD8Async(address(), 0, bytes, stream.get()), "cuMemsetD8Async");
  device->check(device->driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

IpcHandle DeviceMemory::ipc_handle() const {
  const Device& device = memory_.device();
  const Device::Current current(device);
  const BesideCaptures beside(device.driver());
  IpcHandle handle{};
  device.check(device.driver().cuIpcGetMemHandle(&handle, address()), "cuIpcGetMemHandle");
  return handle;
}

PinnedMemory::PinnedMemory(const std::shared_ptr<Device>& device, std::size_t bytes)
    : memory_(pin(device, std::max<std::size_t>(bytes, 1))), bytes_(bytes) {
  std::memset(memory_.get(), 0, bytes);
  const Device::Current current(*device);
  device->check(device->driver().cuMemHostGetDevicePointer(&address_, memory_.get(), 0), "cuMemHostGetDevicePointer");
}

OpenedMemory::OpenedMemory(std::shared_ptr<Device> device, const IpcHandle& handle)
    : memory_(open(std::move(device), handle)) {}

}  // namespace lanecast::gpu
