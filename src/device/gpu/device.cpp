// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/device.h"

#include <array>

#include "base/error.h"
#include "device/gpu/beside_captures.h"

namespace lanecast::gpu {

int current_ordinal() {
  const auto driver = Driver::open();
  int ordinal = 0;
  driver->check(driver->current_device(&ordinal), "cuCtxGetDevice");
  return ordinal;
}

std::shared_ptr<Device> Device::open(int ordinal) {
  auto driver = Driver::open();
  int count = 0;
  driver->check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    throw UsageError(
        "device: there is no GPU " + std::to_string(ordinal) + "; this process sees " + std::to_string(count) + " (" +
        (driver->vendor() == GpuVendor::amd ? "ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES") +
        " can hide some)");
  return std::shared_ptr<Device>(new Device(std::move(driver), ordinal));
}

Device::Device(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {
  check(driver_->cuDeviceGet(&handle_, ordinal), "cuDeviceGet");
  const BesideCaptures beside(*driver_);
  // HIP's are there as long as the process.
  if (driver_->vendor() == GpuVendor::nvidia)
    check(driver_->cuDevicePrimaryCtxRetain(&context_, handle_), "cuDevicePrimaryCtxRetain");
}

Device::~Device() {
  if (context_ == nullptr) return;
  const BesideCaptures beside(*driver_);
  driver_->cuDevicePrimaryCtxRelease(handle_);
}

int Device::attribute(Attribute which) const {
  int value = 0;
  check(driver_->attribute(&value, which, handle_), "cuDeviceGetAttribute");
  return value;
}

std::string Device::name() const {
  std::array<char, 256> name{};
  check(driver_->cuDeviceGetName(name.data(), name.size(), handle_), "cuDeviceGetName");
  return name.data();
}

bool Device::captures(Stream stream) const {
  const Current current(*this);  // the default stream is that of a context
  int status = 0;
  check(driver_->cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
  return status != 0;
}

std::string Device::architecture() const { return driver_->architecture(handle_); }

int Device::multiprocessors() const { return attribute(Attribute::multiprocessors); }

int Device::warp() const { return attribute(Attribute::warp_size); }

int Device::shared_room() const { return attribute_if_known(Attribute::shared_room).value_or(0); }

bool Device::sees_remote_writes_in_order() const {
  return attribute_if_known(Attribute::remote_writes_ordering).value_or(0) >= kRemoteWritesOrdered;
}

bool Device::has_multicast() const { return attribute_if_known(Attribute::multicast).value_or(0) != 0; }

bool Device::has_clusters() const {
  return driver_->cuLaunchKernelEx != nullptr && attribute_if_known(Attribute::cluster_launch).value_or(0) != 0;
}

std::optional<int> Device::attribute_if_known(Attribute which) const {
  int value = 0;
  return driver_->attribute(&value, which, handle_) == kSuccess ? std::optional(value) : std::nullopt;
}

std::string Device::uuid() const {
  std::array<char, 16> bytes{};
  check(driver_->cuDeviceGetUuid(&bytes, handle_), "cuDeviceGetUuid");
  std::string hex;
  for (const char byte : bytes)
    for (const int shift : {4, 0}) hex += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  return hex;
}

std::string Device::pci_bus_id() const {
  std::array<char, 32> id{};
  check(driver_->cuDeviceGetPCIBusId(id.data(), id.size(), handle_), "cuDeviceGetPCIBusId");
  return id.data();
}

Device::Current::Current(const Device& device)
    : driver_(device.driver()), entered_(!driver_.has_entered(device.context_)) {
  if (entered_) driver_.check(device.enter(&before_), "cuCtxPushCurrent");
}

Device::Current::~Current() {
  if (entered_) driver_.leave(before_);
}

}  // namespace lanecast::gpu
