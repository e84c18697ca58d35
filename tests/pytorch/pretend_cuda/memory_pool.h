// SPDX-License-Identifier: Apache-2.0
// What torch.cuda.MemPool is where there is CUDA: memory in segments that two given functions take and free, cut into
// blocks, which are used again in the order of the stream that they were taken on.
#pragma once

#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pretend {

class MemoryPool {
 public:
  MemoryPool(std::uintptr_t allocate, std::uintptr_t free)
      : allocate_(reinterpret_cast<Allocate>(allocate)), free_(reinterpret_cast<Free>(free)) {}
  ~MemoryPool() { release(); }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  void* take(std::size_t bytes, const c10::Stream& stream);
  void give_back(void* block, std::size_t bytes, const c10::Stream& stream);
  /// Where the segments begin.
  std::vector<std::uintptr_t> segments();
  /// Frees the segments in which no block is taken.
  void release();

 private:
  using Allocate = void* (*)(ssize_t, int, void*);
  using Free = void (*)(void*, std::size_t, int, void*);
  using Of = std::pair<c10::StreamId, std::size_t>;  // a block's stream, and its bytes

  struct Segment {
    std::size_t bytes, cut = 0;
    c10::Stream stream;
    int taken = 0;
  };
  Segment& segment_of(void* block);

  const Allocate allocate_;
  const Free free_;
  std::mutex mutex_;  // guards what follows
  std::map<char*, Segment> segments_;
  std::multimap<Of, char*> free_blocks_;
};

/// The pool of this thread's allocations from now on; null: none. Returns the one before.
std::shared_ptr<MemoryPool> exchange_pool(std::shared_ptr<MemoryPool> pool);
const std::shared_ptr<MemoryPool>& current_pool();

}  // namespace pretend
