// SPDX-License-Identifier: Apache-2.0
// Streams of copy engines beside a caller's: two to each peer, one that waits for free slots, and one that unpacks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "device/gpu/stream.h"

namespace lanecast::peers {

class EngineStreams {
 public:
  EngineStreams(std::shared_ptr<gpu::Device> device, int members);

  /// All of them go on from here; and `stream` goes on when they are done.
  void fork(gpu::Stream stream) const;
  void join(gpu::Stream stream) const;

  /// To the k-th peer, from 1; turn: 0 or 1.
  gpu::Stream push(int k, std::size_t turn) const { return push_[push_to(k, turn)].get(); }
  gpu::Stream credit() const { return credit_.get(); }
  gpu::Stream unpack() const { return unpack_.get(); }
  /// For order among them; join() records them again.
  gpu::Event pushed(int k, std::size_t turn) const { return pushed_[push_to(k, turn)].get(); }
  gpu::Event credited() const { return credited_.get(); }

 private:
  static std::size_t push_to(int k, std::size_t turn) { return 2 * static_cast<std::size_t>(k - 1) + turn; }

  std::shared_ptr<gpu::Device> device_;
  std::vector<gpu::OwnedStream> push_;
  std::vector<gpu::OwnedEvent> pushed_;
  gpu::OwnedStream credit_, unpack_;
  gpu::OwnedEvent begun_, credited_, unpacked_;
};

}  // namespace lanecast::peers
