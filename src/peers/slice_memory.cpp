// SPDX-License-Identifier: Apache-2.0
#include "peers/slice_memory.h"

#include <array>

#include "base/error.h"
#include "device/gpu/beside_captures.h"
#include "peers/window_memory.h"

namespace lanecast::peers {
namespace {

/// The GPU that all processes of a host know by this name, which each may count otherwise.
std::shared_ptr<gpu::Device> device_at(const std::string& pci_bus_id) {
  const auto driver = gpu::Driver::open();
  int count = 0;
  driver->check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0;
    std::array<char, 32> id{};
    driver->check(driver->cuDeviceGet(&handle, ordinal), "cuDeviceGet");
    driver->check(driver->cuDeviceGetPCIBusId(id.data(), id.size(), handle), "cuDeviceGetPCIBusId");
    if (id.data() == pci_bus_id) return gpu::Device::open(ordinal);
  }
  throw UsageError("device: this process sees " + std::to_string(count) + " GPUs, and not " + pci_bus_id +
                   "; have the launcher show it the same ones as its neighbours (CUDA_VISIBLE_DEVICES, "
                   "HIP_VISIBLE_DEVICES)");
}

}  // namespace

SliceMemory::SliceMemory(const std::shared_ptr<gpu::Device>& device, gpu::Address begin, std::size_t bytes,
                         gpu::Stream behind)
    : device_(device), stream_(device), begin_(begin) {
  if (device->captures(behind))
    throw UsageError("no CUDA graph can capture a call that several processes move; use_processes(1) meanwhile");
  WindowMemory window(device, begin, bytes, nullptr);
  if (window.pieces()) throw UsageError("memory: helpers map that of cudaMalloc, and this is of cuMemCreate");
  handle_ = window.handle();
  offset_ = window.offset();
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  device_->check(device_->driver().cuStreamSynchronize(behind), "cuStreamSynchronize");
}

SliceMemory::SliceMemory(const std::string& bus_id, const gpu::IpcHandle& handle, std::size_t offset)
    : device_(device_at(bus_id)),
      handle_(handle),
      offset_(offset),
      opened_(std::in_place, device_, handle),
      stream_(device_),
      begin_(opened_->address() + offset) {}

void SliceMemory::copy(gpu::Address to, gpu::Address from, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  device_->check(device_->driver().copy(to, from, bytes, stream_.get()), "cuMemcpyAsync");
  device_->check(device_->driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
}

}  // namespace lanecast::peers
