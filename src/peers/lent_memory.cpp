// SPDX-License-Identifier: Apache-2.0
#include "peers/lent_memory.h"

#include <exception>
#include <list>
#include <mutex>
#include <utility>

#include "device/gpu/beside_captures.h"

namespace lanecast::peers {
namespace {

struct Left {
  std::mutex mutex;
  std::list<std::unique_ptr<LentMemory>> memory;
};

/// Never destroyed: at the end of the process the driver may have gone before.
Left& left() {
  static Left& left = *new Left;
  return left;
}

/// Of a device that is out of order nothing can be said, nor freed.
bool surely_back(LentMemory& memory) {
  try {
    return memory.is_back();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void LentMemory::copy(gpu::Address to, gpu::Address from, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  if (!notes_) notes_.emplace(device_);
  device_->check(device_->driver().copy(to, from, bytes, notes_->get()), "cuMemcpyAsync");
  device_->check(device_->driver().cuStreamSynchronize(notes_->get()), "cuStreamSynchronize");
}

void LentMemory::give_back(gpu::Address theirs) {
  const Word gone = 1;
  copy(theirs + bytes_ + rank_ * sizeof gone, reinterpret_cast<gpu::Address>(&gone), sizeof gone);
}

bool LentMemory::is_back() {
  std::vector<Word> gone(members_.size());
  copy(reinterpret_cast<gpu::Address>(gone.data()), own_.address() + bytes_, gone.size() * sizeof(Word));
  const auto has_ended = [&](std::size_t q) { return members_[q] && members_[q]->has_ended(); };
  for (std::size_t q = 0; q < members_.size(); ++q)
    if (static_cast<int>(q) != rank_ && gone[q] == 0 && !has_ended(q)) return false;
  return true;
}

void LentMemory::leave(std::unique_ptr<LentMemory> memory) {
  const std::lock_guard lock(left().mutex);
  left().memory.push_back(std::move(memory));
}

void LentMemory::free_what_is_back() {
  std::list<std::unique_ptr<LentMemory>> looked_at;
  {
    const std::lock_guard lock(left().mutex);
    looked_at.swap(left().memory);
  }
  // Without the lock, since devices are asked; others find nothing to free meanwhile.
  looked_at.remove_if([](const auto& memory) { return surely_back(*memory); });
  const std::lock_guard lock(left().mutex);
  left().memory.splice(left().memory.end(), looked_at);
}

}  // namespace lanecast::peers
