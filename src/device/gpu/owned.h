// SPDX-License-Identifier: Apache-2.0
// What the driver hands out for a device and takes back.
#pragma once

#include <memory>
#include <utility>

#include "device/gpu/beside_captures.h"
#include "device/gpu/device.h"

namespace lanecast::gpu {

/// Given back where it goes out of scope, with the device current. Handle{} is nothing.
template <class Handle>
class Owned {
 public:
  using GiveBack = int (*)(Handle);

  Owned(std::shared_ptr<Device> device, Handle handle, GiveBack give_back)
      : device_(std::move(device)), handle_(handle), give_back_(give_back) {}
  Owned(Owned&& other) noexcept
      : device_(std::move(other.device_)),
        handle_(std::exchange(other.handle_, Handle{})),
        give_back_(other.give_back_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    std::swap(give_back_, other.give_back_);
    return *this;
  }

  ~Owned() {
    if (handle_ == Handle{}) return;
    const Driver& driver = device_->driver();
    // When a process ends, the driver may have gone first, and has taken everything back.
    int before = 0;
    if (device_->enter(&before) != kSuccess) return;
    const BesideCaptures beside(driver);
    give_back_(handle_);
    driver.leave(before);
  }

  Handle get() const { return handle_; }
  const Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }

 private:
  std::shared_ptr<Device> device_;
  Handle handle_;
  GiveBack give_back_;
};

}  // namespace lanecast::gpu
