// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/stream.h"

#include <utility>

namespace lanecast::gpu {
namespace {

Owned<Stream> create_stream(std::shared_ptr<Device> device) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
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

int BesideCaptures::exchange(const Driver& driver, int mode) {
  if (driver.cuThreadExchangeStreamCaptureMode)
    driver.check(driver.cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  return mode;
}

BesideCaptures::BesideCaptures(const Driver& driver) : driver_(driver), before_(exchange(driver, kRelaxed)) {}

BesideCaptures::~BesideCaptures() {
  if (driver_.cuThreadExchangeStreamCaptureMode) driver_.cuThreadExchangeStreamCaptureMode(&before_);
}

}  // namespace lanecast::gpu
