// SPDX-License-Identifier: Apache-2.0
// Copying payload into a ring, by the kind of store that suits the distance between sender and receiver.
//
// Ordinary stores are best when both cores share a cache: the payload never leaves it. Between cores that share none,
// every line has to be fetched back from the receiver's cache before it can be written, at a twentieth of the speed;
// there, stores that bypass the cache win. Where a process runs is the scheduler's secret (and a hypervisor's), and
// changes, so the sender times its own copies and goes by that.
#pragma once

#include <cstddef>

#include "transport/span_cursor.h"

namespace lanecast::shm {

class CopyIn {
 public:
  /// Writes the next `bytes` bytes of `from`. A release store of the caller orders them before what it publishes.
  void gather(SpanCursor& from, std::byte* to, std::size_t bytes);

 private:
  Stores choose();
  double& cost(Stores stores) { return cost_[static_cast<int>(stores)]; }
  void learn(Stores used, double ticks_per_byte);

  double cost_[2] = {0, 0};  // ticks per byte, of late; 0: not tried yet
  unsigned copies_ = 0;
};

}  // namespace lanecast::shm
