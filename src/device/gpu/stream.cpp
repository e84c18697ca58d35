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

Owned<Event> create_event(std::shared_ptr<Device> device) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  Event event = nullptr;
  driver.check(driver.cuEventCreate(&event, kEventDisableTiming), "cuEventCreate");
  return {std::move(device), event, driver.cuEventDestroy};
}

}  // namespace

OwnedStream::OwnedStream(std::shared_ptr<Device> device) : stream_(create_stream(std::move(device))) {}

OwnedEvent::OwnedEvent(std::shared_ptr<Device> device) : event_(create_event(std::move(device))) {}

}  // namespace lanecast::gpu
