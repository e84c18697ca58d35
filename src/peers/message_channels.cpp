// SPDX-License-Identifier: Apache-2.0
#include "peers/message_channels.h"

#include <cstddef>
#include <span>
#include <vector>

#include "base/agreed.h"
#include "peers/group_memory.h"

namespace lanecast::peers {
namespace {

constexpr std::size_t kFlagsAt = aligned(sizeof(gpu::MessageControl));
constexpr std::size_t kInboxAt = kFlagsAt + aligned(sizeof(gpu::MessageFlags));

gpu::ChannelEnd channel_of(gpu::u32 ranks) {
  gpu::ChannelEnd channel{};
  channel.slot_bytes = gpu::message_slot_bytes(ranks);
  channel.depth[0] = channel.depth[1] = gpu::kMessageSlots;
  return channel;
}

}  // namespace

std::size_t MessageChannels::bytes_of(gpu::u32 members) {
  return kInboxAt + (std::size_t{members} - 1) * gpu::channel_bytes(members);
}

MessageChannels::MessageChannels(const std::shared_ptr<gpu::Device>& device, const Bootstrap& members)
    : memory_(device, members, bytes_of(static_cast<gpu::u32>(members.size))), ends_(agreed(members, [&] {
        const gpu::Device::Current current(*device);
        const std::vector<gpu::MessageEnds> all = ends();
        return std::make_unique<gpu::CopiedMemory>(device, std::as_bytes(std::span(all)));
      })) {}

std::vector<gpu::MessageEnds> MessageChannels::ends() const {
  const auto ranks = static_cast<gpu::u32>(memory_.size()), own = static_cast<gpu::u32>(memory_.rank());
  const auto arrived = [&](gpu::u32 at, gpu::u32 from) {
    return memory_.of(static_cast<int>(at)) + kFlagsAt + offsetof(gpu::MessageFlags, arrived) +
           from * sizeof(gpu::MessageFlags::arrived[0]);
  };
  const auto emptied = [&](gpu::u32 at, gpu::u32 by) {
    return memory_.of(static_cast<int>(at)) + kFlagsAt + offsetof(gpu::MessageFlags, emptied) +
           by * sizeof(gpu::MessageFlags::emptied[0]);
  };
  const auto slots = [&](gpu::u32 at, gpu::u32 from) {
    return memory_.of(static_cast<int>(at)) + kInboxAt + gpu::channel_offset(from, at, ranks);
  };
  std::vector<gpu::MessageEnds> all(ranks);
  for (gpu::u32 q = 0; q < ranks; ++q) {
    if (q == own) continue;
    gpu::MessageEnds& both = all[q];
    both.to = both.from = channel_of(ranks);
    both.to.slots[0] = both.to.slots[1] = slots(q, own);
    both.to.news = arrived(q, own);
    both.to.emptied = emptied(own, q);
    both.to.state = memory_.own() + offsetof(gpu::MessageControl, to) + q * sizeof(gpu::ChannelState);
    both.from.slots[0] = both.from.slots[1] = slots(own, q);
    both.from.news = arrived(own, q);
    both.from.emptied = emptied(q, own);
    both.from.state = memory_.own() + offsetof(gpu::MessageControl, from) + q * sizeof(gpu::ChannelState);
  }
  return all;
}

MessageRoute MessageChannels::route_to(int member) const {
  return {ends_->address() + static_cast<std::size_t>(member) * sizeof(gpu::MessageEnds),
          gpu::message_slot_bytes(static_cast<gpu::u32>(memory_.size()))};
}

}  // namespace lanecast::peers
