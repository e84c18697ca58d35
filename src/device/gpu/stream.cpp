// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/stream.h"

#include <utility>

namespace lanecast::gpu {
namespace {

constexpr int kRelaxedCapture = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

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

BesideCaptures::BesideCaptures(const Driver& driver) : driver_(driver), mode_(kRelaxedCapture) {
  if (driver.cuThreadExchangeStreamCaptureMode)
    driver.check(driver.cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

BesideCaptures::~BesideCaptures() {
  if (driver_.cuThreadExchangeStreamCaptureMode) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace lanecast::gpu
