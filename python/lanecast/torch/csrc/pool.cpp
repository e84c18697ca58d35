// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <sys/types.h>

#include <new>
#include <utility>

namespace lanecast_torch {

Pool::Segment::Segment(std::uint64_t number, std::size_t bytes, int device) : number_(number), bytes_(bytes) {
  if (lanecastMemoryCreate(&memory_, &begin_, bytes, device, nullptr) != lanecastSuccess) throw std::bad_alloc();
}

Pool::Segment::~Segment() { lanecastMemoryDestroy(memory_); }

Pool& Pool::instance() {
  static auto* const pool = new Pool;  // torch's allocator frees when the process ends
  return *pool;
}

void* Pool::allocate(std::size_t bytes, int device) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++numbers_;
  }
  try {
    auto segment = std::make_shared<const Segment>(number, bytes, device);
    void* const begin = segment->begin();
    const std::lock_guard lock(mutex_);
    segments_.emplace(begin, std::move(segment));
    used_.store(true, std::memory_order_relaxed);  // whoever has a tensor there has been told so by other means
    return begin;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Pool::free(void* begin) {
  std::shared_ptr<const Segment> last;  // given back without the lock: that waits for the device
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(begin);
  if (found == segments_.end()) return;
  last = std::move(found->second);
  segments_.erase(found);
}

std::shared_ptr<const Pool::Segment> Pool::find(const void* buffer) {
  if (!used_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto after = segments_.upper_bound(buffer);
  if (after == segments_.begin()) return nullptr;
  const auto& segment = std::prev(after)->second;
  return segment->has(buffer) ? segment : nullptr;
}

}  // namespace lanecast_torch

// What torch.cuda.memory.CUDAPluggableAllocator looks up by name. Memory is ordered among streams by torch's allocator.
extern "C" {
__attribute__((visibility("default"))) void* lanecast_pool_alloc(ssize_t bytes, int device, void* /*stream*/) {
  return lanecast_torch::Pool::instance().allocate(static_cast<std::size_t>(bytes), device);
}

__attribute__((visibility("default"))) void lanecast_pool_free(void* begin, std::size_t /*bytes*/, int /*device*/,
                                                               void* /*stream*/) {
  lanecast_torch::Pool::instance().free(begin);
}
}
