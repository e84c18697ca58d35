// SPDX-License-Identifier: Apache-2.0
// Memory that a process owns on a GPU, pins on the host, or sees of a peer process. Freed where it goes out of scope.
#pragma once

#include <cstddef>
#include <memory>

#include "device/gpu/device.h"
#include "device/gpu/owned.h"

namespace lanecast::gpu {

/// Zeroed when the constructor returns.
class DeviceMemory {
 public:
  DeviceMemory(const std::shared_ptr<Device>& device, std::size_t bytes);

  Address address() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  const std::shared_ptr<Device>& device() const { return memory_.shared_device(); }
  /// What a peer process opens it by.
  IpcHandle ipc_handle() const;

 private:
  Owned<Address> memory_;
  std::size_t bytes_;
};

/// Host memory that all devices of the process reach. Zeroed.
class PinnedMemory {
 public:
  PinnedMemory(const std::shared_ptr<Device>& device, std::size_t bytes);

  std::byte* host() const { return static_cast<std::byte*>(memory_.get()); }
  Address device() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Owned<void*> memory_;
  Address address_ = 0;
  std::size_t bytes_;
};

/// A peer process' DeviceMemory, mapped so that this device reaches it.
class OpenedMemory {
 public:
  OpenedMemory(std::shared_ptr<Device> device, const IpcHandle& handle);

  Address address() const { return memory_.get(); }

 private:
  Owned<Address> memory_;
};

}  // namespace lanecast::gpu
