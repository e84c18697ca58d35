// SPDX-License-Identifier: Apache-2.0
#include "memory_pool.h"

#include <c10/util/Exception.h>

#include "streams.h"

namespace pretend {
namespace {

constexpr std::size_t kSegment = std::size_t{2} << 20, kRounding = 512;  // as torch's

thread_local std::shared_ptr<MemoryPool> pool_of_thread;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

std::shared_ptr<MemoryPool> exchange_pool(std::shared_ptr<MemoryPool> pool) {
  return std::exchange(pool_of_thread, std::move(pool));
}

const std::shared_ptr<MemoryPool>& current_pool() { return pool_of_thread; }

MemoryPool::Segment& MemoryPool::segment_of(void* block) {
  return std::prev(segments_.upper_bound(static_cast<char*>(block)))->second;
}

void* MemoryPool::take(std::size_t bytes, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  bytes = rounded(bytes, kRounding);
  const auto free = free_blocks_.find(Of(stream.id(), bytes));
  if (free != free_blocks_.end()) {
    char* const block = free->second;
    free_blocks_.erase(free);
    ++segment_of(block).taken;
    return block;
  }
  for (auto& [begin, segment] : segments_)
    if (segment.stream == stream && segment.bytes - segment.cut >= bytes) {
      ++segment.taken;
      return begin + std::exchange(segment.cut, segment.cut + bytes);
    }
  const std::size_t whole = rounded(bytes, kSegment);
  char* const begin =
      static_cast<char*>(allocate_(static_cast<ssize_t>(whole), stream.device_index(), handle_of(stream)));
  TORCH_CHECK(begin, "out of memory");
  segments_.emplace(begin, Segment{whole, bytes, stream, 1});
  return begin;
}

void MemoryPool::give_back(void* block, std::size_t bytes, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  --segment_of(block).taken;
  free_blocks_.emplace(Of(stream.id(), rounded(bytes, kRounding)), static_cast<char*>(block));
}

std::vector<std::uintptr_t> MemoryPool::segments() {
  const std::lock_guard lock(mutex_);
  std::vector<std::uintptr_t> begins;
  for (const auto& [begin, of] : segments_) begins.push_back(reinterpret_cast<std::uintptr_t>(begin));
  return begins;
}

void MemoryPool::release() {
  const std::lock_guard lock(mutex_);
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto [begin, of] = *segment;
    if (of.taken != 0) {
      ++segment;
      continue;
    }
    std::erase_if(free_blocks_, [begin = begin, bytes = of.bytes](const auto& free) {
      return free.second >= begin && free.second < begin + bytes;
    });
    synchronize(of.stream);  // as freeing a GPU's memory does
    free_(begin, of.bytes, of.stream.device_index(), handle_of(of.stream));
    segment = segments_.erase(segment);
  }
}

}  // namespace pretend
