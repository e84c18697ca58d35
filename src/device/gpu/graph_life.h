// SPDX-License-Identifier: Apache-2.0
// How long a graph that a stream captures may still run: what its launches use has to stay until then.
#pragma once

#include <atomic>
#include <memory>

#include "device/gpu/device.h"

namespace lanecast::gpu {

class GraphLife {
 public:
  /// Of the graph that the stream captures now, and of all that is instantiated from it or updated by it.
  GraphLife(const Device& device, Stream stream);

  /// Will no launch of it run any more? Never true where the driver cannot tell. Acquire: what its launches have done
  /// is over.
  bool has_ended() const { return ended_->load(std::memory_order_acquire); }

 private:
  using Ended = std::shared_ptr<std::atomic<bool>>;
  static void end(void* of);
  Ended ended_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace lanecast::gpu
