// SPDX-License-Identifier: Apache-2.0
// Streams and events that this library makes for itself.
#pragma once

#include <memory>

#include "device/gpu/device.h"
#include "device/gpu/owned.h"

namespace lanecast::gpu {

/// Of the highest priority, and never waiting for the legacy default stream.
class OwnedStream {
 public:
  explicit OwnedStream(std::shared_ptr<Device> device);
  Stream get() const { return stream_.get(); }

 private:
  Owned<Stream> stream_;
};

/// A moment of a stream on the device's clock.
class TimedEvent {
 public:
  TimedEvent(const std::shared_ptr<Device>& device, Stream stream);
  bool passed() const;
  /// Both have passed.
  double seconds_since(const TimedEvent& before) const;

 private:
  Owned<Event> event_;
};

/// For order alone: it keeps no time.
class OwnedEvent {
 public:
  explicit OwnedEvent(std::shared_ptr<Device> device);
  Event get() const { return event_.get(); }

 private:
  Owned<Event> event_;
};

}  // namespace lanecast::gpu
