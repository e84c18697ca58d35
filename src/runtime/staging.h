// SPDX-License-Identifier: Apache-2.0
// Buffers for messages that a transport cannot gather, scatter or add by itself. Returned buffers serve again, so a
// repeated call allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace lanecast {

class StagingPool {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> data;
    std::size_t capacity = 0;
  };

  Buffer take(std::size_t bytes) {
    // The smallest that fits; else a new one.
    auto best = idle_.end();
    for (auto b = idle_.begin(); b != idle_.end(); ++b)
      if (b->capacity >= bytes && (best == idle_.end() || b->capacity < best->capacity)) best = b;
    if (best == idle_.end()) return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    Buffer buffer = std::move(*best);
    idle_.erase(best);
    return buffer;
  }

  void give_back(Buffer buffer) {
    if (buffer.data) idle_.push_back(std::move(buffer));
  }

 private:
  std::vector<Buffer> idle_;
};

}  // namespace lanecast
