// SPDX-License-Identifier: Apache-2.0
// Copying payload into a ring, by the kind of store that suits the distance between sender and receiver.
//
// Ordinary stores are best when both cores share a cache: the payload never leaves it. Between cores that share none,
// every line has to be fetched back from the receiver's cache before it can be written, at a twentieth of the speed;
// there, stores that bypass the cache win. Where a process runs is the scheduler's secret (and a hypervisor's), and
// changes, so the sender times its own copies and goes by that.
#pragma once

#include <cstddef>

#include "transport/shm/pace.h"
#include "transport/span_cursor.h"

namespace lanecast::shm {

class CopyIn {
 public:
  /// Writes the next `bytes` bytes of `from`. A release store of the caller orders them before what it publishes.
  void gather(SpanCursor& from, std::byte* to, std::size_t bytes);
  /// Of late; ordinary ones until others were tried.
  Stores better() const;

 private:
  Stores choose();
  Pace& pace(Stores stores) { return paces_[static_cast<int>(stores)]; }

  const Pace& pace(Stores stores) const { return paces_[static_cast<int>(stores)]; }

  Pace paces_[2];  // by Stores
  unsigned copies_ = 0;
};

}  // namespace lanecast::shm
