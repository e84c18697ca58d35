// SPDX-License-Identifier: Apache-2.0
// What the host has made for kernels to read, in a device's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "device/gpu/memory.h"

namespace lanecast::gpu {

class CopiedMemory {
 public:
  /// The device is current. Returns when the bytes are on it.
  CopiedMemory(const std::shared_ptr<Device>& device, std::span<const std::byte> bytes);
  Address address() const { return memory_.address(); }

 private:
  PinnedMemory source_;  // what it was copied from; to free it is to wait for all that the device does
  DeviceMemory memory_;
};

}  // namespace lanecast::gpu
