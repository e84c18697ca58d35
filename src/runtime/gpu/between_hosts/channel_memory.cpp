// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/channel_memory.h"

#include <cstddef>
#include <span>

namespace lanecast {
namespace {

constexpr std::size_t kHalves = 2;  // to the other rank, and from it

/// Messages of fewer bytes have to fit several times.
std::uint32_t staged_depth(std::size_t least_on_gpu) {
  const std::size_t slots = least_on_gpu / gpu::kCarriedSlotBytes + 1;
  return 4 * slots <= gpu::kStagedSlots ? gpu::kStagedSlots : gpu::kCarriedSlots;
}

}  // namespace

ChannelMemory::ChannelMemory(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& where, int peer)
    : least_on_gpu_(where.least_on_device[static_cast<std::size_t>(peer)]),
      staged_depth_(staged_depth(least_on_gpu_)),
      flags_(device, kHalves * sizeof(gpu::CarriedFlags)),
      on_host_(device, kHalves * gpu::carried_bytes(staged_depth_)),
      states_(device, kHalves * sizeof(gpu::ChannelState)) {
  if (where.on_device(peer)) {
    on_device_ = std::make_unique<gpu::DeviceMemory>(device, kHalves * gpu::carried_bytes(gpu::kCarriedSlots));
    registered_.emplace(where, *on_device_);
  }
  to_ = half_of(0);
  from_ = half_of(1);
  gpu::MessageEnds ends{};
  ends.to = end_of(to_, 0);
  ends.from = end_of(from_, 1);
  ends.wanted = flags_.device() + sizeof(gpu::CarriedFlags) + offsetof(gpu::CarriedFlags, wanted);
  ends.carried = 1;
  ends_ = std::make_unique<gpu::CopiedMemory>(device, std::as_bytes(std::span(&ends, 1)));
}

std::size_t ChannelMemory::slots_at(std::size_t number, bool on_host) const {
  return number * gpu::carried_bytes(on_host ? staged_depth_ : gpu::kCarriedSlots);
}

ChannelHalf ChannelMemory::half_of(std::size_t number) const {
  ChannelHalf half;
  half.flags = reinterpret_cast<gpu::CarriedFlags*>(flags_.host()) + number;
  half.least_on_gpu = least_on_gpu_;
  half.depth = {gpu::kCarriedSlots, staged_depth_};
  half.slots[1] = on_host_.host() + slots_at(number, true);
  if (on_device_) half.slots[0] = reinterpret_cast<std::byte*>(on_device_->address()) + slots_at(number, false);
  return half;
}

gpu::ChannelEnd ChannelMemory::end_of(const ChannelHalf& half, std::size_t number) const {
  const gpu::Address flags = flags_.device() + number * sizeof(gpu::CarriedFlags);
  gpu::ChannelEnd end{};
  end.slots[0] = on_device_ ? on_device_->address() + slots_at(number, false) : 0;
  end.slots[1] = on_host_.device() + slots_at(number, true);
  end.news = flags + offsetof(gpu::CarriedFlags, arrived);
  end.emptied = flags + offsetof(gpu::CarriedFlags, emptied);
  end.inlined = flags + offsetof(gpu::CarriedFlags, inlined);
  end.state = states_.address() + number * sizeof(gpu::ChannelState);
  end.slot_bytes = gpu::kCarriedSlotBytes;
  end.least_on_gpu = half.least_on_gpu;
  end.depth[0] = half.depth[0];
  end.depth[1] = half.depth[1];
  return end;
}

}  // namespace lanecast
