// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <c10/core/Event.h>

#include <cstring>
#include <vector>

#include "memory_pool.h"
#include "streams.h"

namespace pretend {
namespace {

constexpr int kNonsense = 0xDD;

struct Block {
  void* data;
  std::size_t bytes;
  c10::Stream taken_on;
  std::vector<c10::Stream> used_on;
  std::shared_ptr<MemoryPool> pool;  // null: the host's memory

  static void give_back(void* held) {
    const std::unique_ptr<Block> block(static_cast<Block*>(held));
    for (const c10::Stream& stream : block->used_on) {
      c10::Event used(c10::kCUDA);
      used.record(stream);
      used.block(block->taken_on);
    }
    // Not freed: a late reader is to find this, and not another's data.
    enqueue(block->taken_on, [data = block->data, bytes = block->bytes] { std::memset(data, kNonsense, bytes); });
    if (block->pool) block->pool->give_back(block->data, block->bytes, block->taken_on);
  }
};

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = Guard().getDevice();
    if (bytes == 0) return {nullptr, device};
    const c10::Stream stream = Guard().getStream(device);
    const std::shared_ptr<MemoryPool>& pool = current_pool();
    auto* const block = new Block{pool ? pool->take(bytes, stream) : std::malloc(bytes), bytes, stream, {}, pool};
    if (!pool) std::memset(block->data, kNonsense, bytes);
    return {block->data, block, &Block::give_back, device};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

void record_use(const c10::DataPtr& data, const c10::Stream& stream) {
  auto* const block = static_cast<Block*>(data.get_context());
  if (block && block->taken_on != stream) block->used_on.push_back(stream);
}

c10::Allocator* allocator() {
  static auto* const only = new Allocator;
  return only;
}

}  // namespace pretend
