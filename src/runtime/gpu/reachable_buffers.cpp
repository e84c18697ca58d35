// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/reachable_buffers.h"

#include <utility>

namespace lanecast {

ReachableBuffers::ReachableBuffers(std::shared_ptr<gpu::Device> device, const Bootstrap& bootstrap,
                                   peers::HostBoard& board)
    : device_(std::move(device)), rank_(bootstrap.rank), size_(bootstrap.size), windows_(device_, bootstrap, board) {}

std::shared_ptr<peers::SharedMemory> ReachableBuffers::allocate(const Bootstrap& bootstrap, std::size_t bytes) {
  const gpu::Device::Current current(*device_);
  auto shared = std::make_shared<peers::SharedMemory>(device_, bootstrap, bytes, ++allocations_);
  std::erase_if(symmetric_, [](const auto& known) { return known.expired(); });
  symmetric_.push_back(shared);
  return shared;
}

const peers::SharedMemory* ReachableBuffers::symmetric(const void* begin, std::size_t bytes) const {
  const auto at = reinterpret_cast<gpu::Address>(begin);
  for (const auto& known : symmetric_)
    if (const auto memory = known.lock();
        memory && at >= memory->own() && at + bytes <= memory->own() + memory->bytes())
      return memory.get();
  return nullptr;
}

InHostBuffers ReachableBuffers::of(const Call& call) const {
  const bool has_windows = !windows_.empty();
  if ((symmetric_.empty() && !has_windows) || call.own_counts()) return {call.in, call.out, nullptr, nullptr, {}};
  const std::size_t full = full_bytes(call, size_);
  const Collective collective = collective_of(call, size_, false);
  const auto share = [&](PartRange parts) {
    if (!call.counts.empty() && parts.count == 1) return call.counts[parts[0]] * size_of(call.dtype);
    return parts.count <= 1 ? call.count * size_of(call.dtype) : full;
  };
  const std::size_t in_bytes = share(collective.inputs(rank_)), out_bytes = share(collective.outputs(rank_));
  InHostBuffers buffers{call.in, call.out, symmetric(call.in, in_bytes), symmetric(call.out, out_bytes), {}};
  if (has_windows) {
    buffers.windows.in_place = windows_.place(call.in, in_bytes);
    buffers.windows.out_place = windows_.place(call.out, out_bytes);
  }
  return buffers;
}

}  // namespace lanecast
