// SPDX-License-Identifier: Apache-2.0
#include "transport/ipc/lent_memory.h"

#include <list>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace lanecast::ipc {
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
bool surely_back(const LentMemory& memory) {
  try {
    return memory.is_back();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void LentMemory::give_back(gpu::Address theirs) const {
  const Word gone = 1;
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuMemcpyHtoD(theirs + bytes_ + rank_ * sizeof gone, &gone, sizeof gone),
                 "cuMemcpyHtoD");
}

bool LentMemory::is_back() const {
  std::vector<Word> gone(members_.size());
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuMemcpyDtoH(gone.data(), own_.address() + bytes_, gone.size() * sizeof(Word)),
                 "cuMemcpyDtoH");
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
  const std::lock_guard lock(left().mutex);
  left().memory.remove_if([](const auto& memory) { return surely_back(*memory); });
}

}  // namespace lanecast::ipc
