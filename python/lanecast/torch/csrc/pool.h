// SPDX-License-Identifier: Apache-2.0
// Memory of this process that groups let their peers map: torch's allocator takes it in segments for a MemPool and cuts
// it into tensors, and each group learns of a segment by the first call on it.
#pragma once

#include <lanecast/lanecast.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace lanecast_torch {

class Pool {
 public:
  class Segment {
   public:
    /// Throws std::bad_alloc.
    Segment(std::uint64_t number, std::size_t bytes, int device);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    std::uint64_t number() const { return number_; }  // of no other one
    lanecastMemory_t memory() const { return memory_; }
    std::byte* begin() const { return static_cast<std::byte*>(begin_); }
    bool has(const void* at) const { return at >= begin() && at < begin() + bytes_; }

   private:
    const std::uint64_t number_;
    const std::size_t bytes_;
    lanecastMemory_t memory_ = nullptr;
    void* begin_ = nullptr;
  };

  /// The one of this process.
  static Pool& instance();

  /// Null where the GPU has no more.
  void* allocate(std::size_t bytes, int device);
  void free(void* begin);
  /// The segment in which a buffer lies; null for none.
  std::shared_ptr<const Segment> find(const void* buffer);

 private:
  std::mutex mutex_;  // guards what follows
  std::map<const void*, std::shared_ptr<const Segment>> segments_;
  std::uint64_t numbers_ = 0;
  std::atomic<bool> used_{false};  // so that a process without segments locks nothing
};

}  // namespace lanecast_torch
