// SPDX-License-Identifier: Apache-2.0
// The simulated ranks' devices. The core's two doors to the memory of a call, base/copy.h and device/host/reduce, are
// implemented here once more: they note what the work would take a device, and do it only where data are real.
#pragma once

#include <cstddef>

namespace lanecast::simulator {

struct Devices {
  double memory_rate_Bps = 0;
  bool holds_data = false;
};

/// Before the first rank starts.
void set_devices(const Devices& devices);

/// Do buffers hold data?
bool holds_data();

/// The rank that runs owes its device the time to move so many bytes of memory, reads and writes together.
void owe(std::size_t moved_bytes);
/// What is owed since this was last asked. A device does one thing after the other, and whatever is sent or received
/// waits for it. Of simulated ranks one runs at a time, and asks before another does.
double take_owed_s();

}  // namespace lanecast::simulator
