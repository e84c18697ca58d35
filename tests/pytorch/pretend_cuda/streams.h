// SPDX-License-Identifier: Apache-2.0
// Devices, streams and events of a torch that has no CUDA, as torch's guards ask for them.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <functional>

#include "driver.h"

namespace pretend {

constexpr int kDevices = 4;
constexpr int kPool = 8;  // streams of a device beside the default one, which has the id 0

/// The driver's stream behind torch's.
Stream handle_of(const c10::Stream& stream);
/// What runs in the order of a stream.
void enqueue(const c10::Stream& stream, std::function<void()> task);
void synchronize(const c10::Stream& stream);

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device device) const override { exchangeDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { exchangeDevice(device); }
  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority = false) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void destroyEvent(void* event, const c10::DeviceIndex device) const noexcept override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* first, void* second, const c10::DeviceIndex device) const override;

  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;
};

}  // namespace pretend
