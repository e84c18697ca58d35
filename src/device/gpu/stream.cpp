// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/stream.h"

#include <utility>

#include "device/gpu/beside_captures.h"

namespace lanecast::gpu {
namespace {

Owned<Stream> create_stream(std::shared_ptr<Device> device) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  int lowest = 0, highest = 0;
  driver.check(driver.cuCtxGetStreamPriorityRange(&lowest, &highest), "cuCtxGetStreamPriorityRange");
  Stream stream = nullptr;
  driver.check(driver.cuStreamCreateWithPriority(&stream, kStreamNonBlocking, highest), "cuStreamCreateWithPriority");
  return {std::move(device), stream, driver.cuStreamDestroy};
}

Owned<Event> create_event(std::shared_ptr<Device> device, unsigned flags) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  Event event = nullptr;
  driver.check(driver.cuEventCreate(&event, flags), "cuEventCreate");
  return {std::move(device), event, driver.cuEventDestroy};
}

}  // namespace

OwnedStream::OwnedStream(std::shared_ptr<Device> device) : stream_(create_stream(std::move(device))) {}

OwnedEvent::OwnedEvent(std::shared_ptr<Device> device) : event_(create_event(std::move(device), kEventDisableTiming)) {}

TimedEvent::TimedEvent(const std::shared_ptr<Device>& device, Stream stream) : event_(create_event(device, 0)) {
  const Device::Current current(*device);
  device->check(device->driver().cuEventRecord(event_.get(), stream), "cuEventRecord");
}

bool TimedEvent::passed() const {
  const Device& device = *event_.shared_device();
  const Device::Current current(device);
  const BesideCaptures beside(device.driver());
  const int result = device.driver().cuEventQuery(event_.get());
  if (result != kNotReady) device.check(result, "cuEventQuery");
  return result == kSuccess;
}

double TimedEvent::seconds_since(const TimedEvent& before) const {
  const Device& device = *event_.shared_device();
  const Device::Current current(device);
  float ms = 0;
  device.check(device.driver().cuEventElapsedTime(&ms, before.event_.get(), event_.get()), "cuEventElapsedTime");
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace lanecast::gpu
