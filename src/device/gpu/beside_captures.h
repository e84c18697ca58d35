// SPDX-License-Identifier: Apache-2.0
// What may be asked of a driver while a thread of the process captures a graph.
#pragma once

#include "device/gpu/driver.h"

namespace lanecast::gpu {

/// While it lives, this thread's calls spoil no capture: by default much may not be asked while any thread captures,
/// such as to take or free memory, to load kernels, and to look at a stream or an event. Needed around all of it but in
/// a caller's capture; no help against cuCtxSynchronize(), which no capture survives. Where the driver cannot be told
/// so, it is left to the calls that follow to fail.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Driver& driver) noexcept;
  ~BesideCaptures();
  /// The same until this thread ends.
  static void for_good(const Driver& driver);
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  const Driver& driver_;
  int mode_;  // what it was
  bool exchanged_;
};

}  // namespace lanecast::gpu
