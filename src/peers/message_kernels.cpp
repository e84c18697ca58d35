// SPDX-License-Identifier: Apache-2.0
#include "peers/message_kernels.h"

#include <algorithm>
#include <vector>

namespace lanecast::peers {
namespace {

static_assert(gpu::kMostBlocks <= gpu::kMessageBlocks);  // see PeerCuts::blocks()
static_assert(gpu::kMostRanks <= gpu::kMessagePeers);

/// Peers that are equally far from a rank, in either direction, are this far from each other: at most two.
int distance(int rank, int peer, int size) {
  const int ahead = (peer - rank + size) % size;
  return std::min(ahead, size - ahead);
}
constexpr int kDistances = gpu::kMessagePeers / 2;  // that a kernel takes

}  // namespace

/// Messages of each direction between this rank and the others, in their order.
struct MessageKernels::MessageQueues {
  explicit MessageQueues(int ranks) : to(ranks), from(ranks) {}
  std::vector<std::vector<Parcel>> to, from;  // each rank

  bool has(int peer) const { return !to[peer].empty() || !from[peer].empty(); }
  int peers() const {
    int count = 0;
    for (std::size_t q = 0; q < to.size(); ++q) count += has(static_cast<int>(q)) ? 1 : 0;
    return count;
  }
  std::size_t longest() const {
    std::size_t longest = 0;
    for (const auto* side : {&to, &from})
      for (const auto& queue : *side) longest = std::max(longest, queue.size());
    return longest;
  }
};

/// What a kernel takes: of each queue so many messages, of peers at these distances.
struct MessageKernels::PartOfQueues {
  std::size_t from, count;
  int nearest, behind_farthest;

  std::span<const Parcel> of(const std::vector<Parcel>& queue) const {
    const std::size_t begin = std::min(from, queue.size());
    return std::span(queue).subspan(begin, std::min(count, queue.size() - begin));
  }
};

bool MessageKernels::fill(gpu::Messages& x, const MessageQueues& queues, const PartOfQueues& part,
                          const std::function<MessageRoute(int peer)>& route_to) const {
  gpu::u32 used = 0;
  x.timeout_ns = own_.faults.unwatched_timeout_ns();
  for (int k = 1; k < ranks_.size; ++k) {
    const int q = (ranks_.rank + k) % ranks_.size;
    const int away = distance(ranks_.rank, q, ranks_.size);
    if (away < part.nearest || away >= part.behind_farthest) continue;
    const auto to = part.of(queues.to[q]), from = part.of(queues.from[q]);
    if (to.empty() && from.empty()) continue;
    const MessageRoute route = route_to(q);
    if (route.slot_bytes == 0) x.timeout_ns = own_.faults.timeout_ns();
    gpu::MessagePeer& peer = x.peer[x.peers++];
    peer.rank = static_cast<gpu::u32>(q);
    peer.ends = route.ends;
    peer.first = used;
    peer.sends = static_cast<gpu::u32>(to.size());
    peer.receives = static_cast<gpu::u32>(from.size());
    peer.blocks = static_cast<gpu::u32>(route.slot_bytes ? gpu::kMessageBlocks : gpu::kCarriedBlocks);
    for (const auto parcels : {to, from})
      for (const Parcel& parcel : parcels)
        x.message[used++] = route.slot_bytes ? gpu::message(parcel.at, parcel.bytes, route.slot_bytes)
                                             : gpu::carried_message(parcel.at, parcel.bytes);
  }
  return x.peers > 0;
}

int MessageKernels::share_blocks(gpu::Messages& x) const {
  std::size_t largest = 0;
  gpu::u32 used = 0;
  for (gpu::u32 k = 0; k < x.peers; ++k) used = x.peer[k].first + x.peer[k].sends + x.peer[k].receives;
  for (gpu::u32 k = 0; k < used; ++k) largest = std::max<std::size_t>(largest, x.message[k].bytes);
  const auto fair = std::max<gpu::u32>(static_cast<gpu::u32>(cuts_.blocks(largest)) / x.peers, 1);
  gpu::u32 end = 0;
  for (gpu::u32 k = 0; k < x.peers; ++k) {
    gpu::MessagePeer& peer = x.peer[k];
    const auto pieces = [&](gpu::u32 first, gpu::u32 count) {
      std::uint64_t all = 0;
      for (gpu::u32 m = first; m < first + count; ++m) all += x.message[m].pieces;
      return all;
    };
    const std::uint64_t most = std::max(pieces(peer.first, peer.sends), pieces(peer.first + peer.sends, peer.receives));
    peer.blocks = static_cast<gpu::u32>(std::min<std::uint64_t>(most, std::min(peer.blocks, fair)));
    end += peer.blocks;
    peer.end_block = end;
  }
  return static_cast<int>(end);
}

void MessageKernels::exchange(std::span<const PeerMessage> messages,
                              const std::function<MessageRoute(int peer)>& route_to, gpu::Stream stream) const {
  MessageQueues queues(ranks_.size);
  for (const PeerMessage& message : messages)
    (message.sends ? queues.to : queues.from)[message.peer].push_back(message.data);
  auto &self_to = queues.to[ranks_.rank], &self_from = queues.from[ranks_.rank];
  for (std::size_t k = 0; k < self_to.size(); ++k)
    own_.launches.copy_within(self_from[k].at, self_to[k].at, self_to[k].bytes, cuts_.local_blocks(), stream);
  const std::size_t all = messages.size() - self_to.size() - self_from.size();
  self_to.clear();
  self_from.clear();
  // Where one kernel is not enough, the queues go on alike, and peers come by their distance, which is the same at
  // both. All ranks cut at multiples of one number of messages, as many as a kernel of the most peers has room for: so
  // what meets is in kernels of the same rounds, and none waits for one behind it.
  const int peers = queues.peers();
  constexpr std::size_t kRound = gpu::kMessages / (2 * gpu::kMessagePeers);
  const bool in_groups = peers > gpu::kMessagePeers;
  const std::size_t length = all <= gpu::kMessages && !in_groups
                                 ? gpu::kMessages
                                 : (in_groups ? kRound : gpu::kMessages / (2 * std::max(peers, 1)) / kRound * kRound);
  const int farthest = ranks_.size / 2 + 1, each = in_groups ? kDistances : farthest;
  for (std::size_t from = 0; from < queues.longest(); from += length)
    for (int nearest = 1; nearest < farthest; nearest += each) {
      gpu::Messages x{};
      if (!fill(x, queues, {from, length, nearest, nearest + each}, route_to)) continue;
      x.rank = static_cast<gpu::u32>(ranks_.rank);
      x.control = own_.control;
      x.fault = own_.faults.device();
      own_.launches.messages(x, share_blocks(x), stream);
    }
}

}  // namespace lanecast::peers
