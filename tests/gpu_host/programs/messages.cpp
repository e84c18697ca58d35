// SPDX-License-Identifier: Apache-2.0
// The protocol of messages between two ranks by itself: ranks are threads of this process, messages take many pieces
// through few short slots, kernels of one channel differ in their blocks and in how many messages they take, and the
// calls follow each other with no word between the ranks but the kernel's own.
//
// Argument: how many times over. Prints how many messages it has judged; ends with 1 at the first wrong byte.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../block.h"
#include "../kernels.h"
#include "device/gpu/kernels/message_arguments.h"
#include "ranks.h"

using namespace lanecast::gpu;

namespace {

constexpr u64 kSlotBytes = 64;

/// Byte k of the n-th message of a channel.
u8 byte_of(u32 from, u32 to, u32 n, u64 k) {
  return static_cast<u8>((k * 7 + from * 31 + to * 57 + n * 101) * 2654435761u >> 16);
}

/// Of the n-th message of a channel: nothing, some bytes, and more than all slots hold.
u64 length(u32 from, u32 to, u32 n) {
  const u64 lengths[] = {5000, 0, 1, 64, 20000, 63, 999};
  return lengths[n % 7] == 0 ? 0 : lengths[n % 7] + from * 3 + to;
}

u64 address_of(const void* at) { return reinterpret_cast<u64>(at); }

/// What each rank has made for the others.
struct Memory {
  explicit Memory(u32 ranks)
      : inbox(ranks * kMessageSlots * kSlotBytes / sizeof(u64)), flags(1), control(1), message_control(1), fault(1) {}
  std::vector<u64> inbox;
  std::vector<MessageFlags> flags;
  std::vector<Control> control;
  std::vector<MessageControl> message_control;
  std::vector<FaultRecord> fault;
};

struct InFlight {
  u32 from, to, n;
  std::vector<u8> data;
};

class Rank {
 public:
  Rank(u32 rank, std::vector<Memory>& memory)
      : rank_(rank), memory_(memory), ranks_(static_cast<u32>(memory.size())), sent_(ranks_), received_(ranks_) {}

  /// So many messages to each peer and from each, in one kernel.
  int run(u32 sends, u32 receives, u32 blocks) {
    Messages x{};
    x.rank = rank_;
    x.timeout_ns = 300'000'000'000;
    x.control = address_of(memory_[rank_].control.data());
    x.fault = address_of(memory_[rank_].fault.data());
    std::vector<InFlight> all;
    all.reserve(static_cast<std::size_t>(ranks_) * (sends + receives));
    u32 used = 0;
    const auto add = [&](InFlight message) {
      message.data.assign(length(message.from, message.to, message.n) + 1, 0xA5);
      if (message.from == rank_)
        for (u64 k = 0; k + 1 < message.data.size(); ++k)
          message.data[k] = byte_of(message.from, message.to, message.n, k);
      all.push_back(std::move(message));
      x.message[used++] =
          lanecast::gpu::message(address_of(all.back().data.data()), all.back().data.size() - 1, kSlotBytes);
    };
    for (u32 q = 0; q < ranks_; ++q) {
      if (q == rank_) continue;
      MessagePeer& peer = x.peer[x.peers++];
      peer.rank = q;
      peer.ends = address_of(&(ends_[q] = ends_to(q)));
      peer.blocks = blocks;
      peer.end_block = x.peers * blocks;
      peer.first = used;
      peer.sends = sends;
      peer.receives = receives;
      for (u32 k = 0; k < sends; ++k) add({rank_, q, sent_[q]++, {}});
      for (u32 k = 0; k < receives; ++k) add({q, rank_, received_[q]++, {}});
    }
    gpu_host::run_grid({{x.peers * blocks, 1, 1}, {kMessageThreads, 1, 1}}, gpu_host::kernel("lanecast_messages", &x));
    for (const InFlight& message : all) judge(message);
    return static_cast<int>((ranks_ - 1) * receives);
  }

 private:
  MessageEnds ends_to(u32 q) {
    const auto channel = [](ChannelState& state, Memory& receiver, u32 at, u32 from) {
      ChannelEnd end{};
      end.slots[0] = end.slots[1] =
          address_of(receiver.inbox.data()) + (from < at ? from : from - 1) * kMessageSlots * kSlotBytes;
      end.state = address_of(&state);
      end.slot_bytes = kSlotBytes;
      end.depth[0] = end.depth[1] = kMessageSlots;
      return end;
    };
    Memory &own = memory_[rank_], &peers = memory_[q];
    MessageEnds ends{};
    ends.to = channel(own.message_control[0].to[q], peers, q, rank_);
    ends.to.news = address_of(peers.flags[0].arrived[rank_]);
    ends.to.emptied = address_of(own.flags[0].emptied[q]);
    ends.from = channel(own.message_control[0].from[q], own, rank_, q);
    ends.from.news = address_of(own.flags[0].arrived[q]);
    ends.from.emptied = address_of(peers.flags[0].emptied[rank_]);
    return ends;
  }

  void judge(const InFlight& message) const {
    for (u64 k = 0; k < message.data.size(); ++k) {
      const u8 expected = k + 1 == message.data.size() ? 0xA5 : byte_of(message.from, message.to, message.n, k);
      if (message.data[k] == expected) continue;
      const FaultRecord& fault = memory_[rank_].fault[0];
      std::fprintf(stderr, "rank %u: byte %llu of message %u from %u to %u is %u, expected %u; fault %u peer %u\n",
                   rank_, k, message.n, message.from, message.to, message.data[k], expected, fault.fault, fault.peer);
      std::exit(1);
    }
  }

  u32 rank_;
  std::vector<Memory>& memory_;
  u32 ranks_;
  MessageEnds ends_[kMostRanks]{};
  std::vector<u32> sent_, received_;  // messages so far, to and from each rank
};

/// Each rank its own way through the same 12 messages of each channel.
int all_of(Rank& rank, u32 r) {
  int judged = 0;
  if (r == 0)
    for (u32 k = 0; k < 6; ++k) judged += rank.run(2, 2, 1 + k % 2);
  else if (r == 1)
    for (u32 k = 0; k < 6; ++k) judged += rank.run(2, 2, 2);
  else
    judged += rank.run(12, 12, 1);
  return judged;
}

}  // namespace

int main(int, char** arguments) {
  int judged = 0;
  for (int time = 0; time < std::atoi(arguments[1]); ++time)
    for (const u32 ranks : {2u, 3u})
      judged += run_ranks<Memory>(ranks, [](u32 r, std::vector<Memory>& memory) {
        Rank rank(r, memory);
        return all_of(rank, r);
      });
  std::printf("%d messages\n", judged);
}
