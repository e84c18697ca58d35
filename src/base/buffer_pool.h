// SPDX-License-Identifier: Apache-2.0
// Buffers that serve again and again, so that what is repeated allocates nothing: for messages that a transport cannot
// gather, scatter or add by itself, and for those that come before their receive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lanecast {

class BufferPool {
 public:
  struct Buffer {
    std::unique_ptr<std::byte[]> data;
    std::size_t capacity = 0;
  };

  /// most_idle: buffers that are kept for later; more of them are freed.
  explicit BufferPool(std::size_t most_idle = SIZE_MAX) : most_idle_(most_idle) {}

  /// The smallest that fits; else a new one in place of the largest, so there are never more buffers than were in use
  /// at a time, nor larger ones than were asked for.
  Buffer take(std::size_t bytes) {
    auto best = idle_.end(), largest = idle_.end();
    for (auto b = idle_.begin(); b != idle_.end(); ++b) {
      if (b->capacity >= bytes && (best == idle_.end() || b->capacity < best->capacity)) best = b;
      if (largest == idle_.end() || b->capacity > largest->capacity) largest = b;
    }
    if (best == idle_.end()) {
      if (largest != idle_.end()) idle_.erase(largest);
      return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    }
    Buffer buffer = std::move(*best);
    idle_.erase(best);
    return buffer;
  }

  void give_back(Buffer buffer) {
    if (buffer.data && idle_.size() < most_idle_) idle_.push_back(std::move(buffer));
  }

 private:
  std::size_t most_idle_;
  std::vector<Buffer> idle_;
};

}  // namespace lanecast
