// SPDX-License-Identifier: Apache-2.0
// Messages between pairs of ranks: those of one call in one kernel, if they fit.
#include <algorithm>
#include <vector>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

static_assert(gpu::kMostBlocks <= gpu::kMessageBlocks);  // see PeerCuts::blocks()

/// Messages of one direction between this rank and another, in their order.
struct MessageQueue {
  std::vector<Parcel> parcels;

  /// Those that a kernel takes which begins at place `from` of every queue.
  std::span<const Parcel> part(std::size_t from, std::size_t count) const {
    const std::size_t begin = std::min(from, parcels.size());
    return std::span(parcels).subspan(begin, std::min(count, parcels.size() - begin));
  }
};

struct MessageQueues {
  explicit MessageQueues(int members) : to(members), from(members) {}
  std::vector<MessageQueue> to, from;  // each member

  /// Of each queue, in one kernel. All queues go on alike where one kernel is not enough: what two ranks have at the
  /// same place meets, and no kernel waits for one behind it.
  std::size_t length() const {
    std::size_t used = 0, all = 0, longest = 0;
    for (const auto* side : {&to, &from})
      for (const MessageQueue& queue : *side) {
        used += queue.parcels.empty() ? 0 : 1;
        all += queue.parcels.size();
        longest = std::max(longest, queue.parcels.size());
      }
    return all <= gpu::kMessages ? std::max<std::size_t>(longest, 1) : gpu::kMessages / used;
  }
};

}  // namespace

gpu::Messages PeerGroup::message_arguments() const {
  gpu::Messages x{};
  x.rank = static_cast<gpu::u32>(rank());
  x.slot_bytes = gpu::message_slot_bytes(static_cast<gpu::u32>(size()));
  x.timeout_ns = faults_.timeout_ns();
  x.inbox = memory_.message_inbox(rank());
  x.flags = memory_.message_flags(rank());
  x.message_control = memory_.message_control();
  x.control = memory_.control();
  x.fault = faults_.device();
  return x;
}

void PeerGroup::exchange(std::span<const PeerMessage> messages, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  MessageQueues queues(size());
  for (const PeerMessage& message : messages)
    (message.sends ? queues.to : queues.from)[message.peer].parcels.push_back(message.data);
  auto &self_to = queues.to[rank()].parcels, &self_from = queues.from[rank()].parcels;
  for (std::size_t k = 0; k < self_to.size(); ++k)
    copy_within(self_from[k].at, self_to[k].at, self_to[k].bytes, cuts_.local_blocks(), stream);
  self_to.clear();
  self_from.clear();
  const std::size_t length = queues.length();
  for (std::size_t from = 0;; from += length) {
    gpu::Messages x = message_arguments();
    std::size_t most_pieces = 0, largest = 0;
    gpu::u32 used = 0;
    const auto add = [&](std::span<const Parcel> parcels) {
      std::size_t pieces = 0;
      for (const Parcel& parcel : parcels) {
        x.message[used] = gpu::message(parcel.at, parcel.bytes, x.slot_bytes);
        pieces += x.message[used++].pieces;
        largest = std::max(largest, parcel.bytes);
      }
      most_pieces = std::max(most_pieces, pieces);
      return static_cast<gpu::u32>(parcels.size());
    };
    for (int k = 1; k < size(); ++k) {
      const int q = (rank() + k) % size();
      const auto to = queues.to[q].part(from, length), arriving = queues.from[q].part(from, length);
      if (to.empty() && arriving.empty()) continue;
      gpu::MessagePeer& peer = x.peer[x.peers++];
      const auto me = static_cast<gpu::u32>(rank()), it = static_cast<gpu::u32>(q);
      peer.rank = it;
      peer.inbox = memory_.message_inbox(q) + gpu::channel_offset(me, it, static_cast<gpu::u32>(size()));
      peer.flags = memory_.message_flags(q);
      peer.first = used;
      peer.sends = add(to);
      peer.receives = add(arriving);
    }
    if (x.peers == 0) return;
    const std::size_t fair = std::max<std::size_t>(static_cast<std::size_t>(cuts_.blocks(largest)) / x.peers, 1);
    x.blocks = static_cast<gpu::u32>(std::min(most_pieces, fair));
    launches_.messages(x, stream);
  }
}

}  // namespace lanecast::peers
