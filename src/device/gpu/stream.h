// SPDX-License-Identifier: Apache-2.0
// Streams and events that this library makes for itself, and how it asks about them beside captures.
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

/// While it lives, this thread's calls spoil no capture: by default much may not be asked while any thread captures.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Driver& driver);
  ~BesideCaptures();
  /// The same until this thread ends.
  static void for_good(const Driver& driver) { exchange(driver, kRelaxed); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  static constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  /// Returns what it was.
  static int exchange(const Driver& driver, int mode);

  const Driver& driver_;
  int before_;
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
