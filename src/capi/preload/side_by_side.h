// SPDX-License-Identifier: Apache-2.0
// A group whose messages go by both, NCCL and Lanecast: a peer may make the same calls one after another, in any order,
// so neither part may wait for the other.
#pragma once

#include <memory>
#include <mutex>

#include "device/gpu/stream.h"
#include "runtime/gpu/order_of_calls.h"

namespace lanecast::preload {

/// A stream of the library's own on a communicator's GPU, which its messages take in such groups.
class SideStream {
 public:
  /// The library's stream, on which what comes next runs behind what is on `stream` now.
  gpu::Stream fork(int ordinal, gpu::Stream stream);
  /// What comes next on `stream` runs behind what is on the library's now.
  void join(gpu::Stream stream);

 private:
  std::mutex mutex_;
  std::unique_ptr<OrderOfCalls> order_;  // made with the first such group
};

}  // namespace lanecast::preload
