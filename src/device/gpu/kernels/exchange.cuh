// SPDX-License-Identifier: Apache-2.0
// A collective among ranks that see each other's memory, as one kernel: each rank writes its messages into the others'
// slots and combines what arrives in its own. Some of a block's threads send, the others receive.
#pragma once

#include "device/gpu/kernels/pieces.cuh"

namespace lanecast::gpu {

constexpr int kExchangeThreads = exchange_threads(kWarp);
static_assert(may_part(kCopySenders) && may_part(kReduceSenders) && may_part(kMovers));

/// A block's part of an exchange.
template <int kSenders>
class BlockExchange : public BlockPieces {
  static constexpr int kReceivers = kMovers - kSenders;

 public:
  using BlockPieces::BlockPieces;

  __device__ void send() {
    const Team team{threadIdx.x, kSenders};
    move(kSending, x_.send_rounds, [&](u32 round) {
      if (x_.multicast) return multicast(team, round);
      send_pieces(round, [&](u64 to, u64 from, u64 bytes) { copy_bytes(team, to, from, bytes); });
    });
  }

  __device__ void signal_sent(u32& sent) {
    const u32 n = x_.send_rounds, q = threadIdx.x % kWarp;
    signal(
        kSending, n,
        [&](u32 round) {
          return round < kSlots || !sends(q, round) ||
                 await(&flags(x_.rank)->emptied[q][blockIdx.x], sent_to(q), round - kSlots);
        },
        [&](u32 round) {
          tell(&sent, round + 1);
          if (sends(q, round)) say(kSending, &flags(q)->arrived[x_.rank][blockIdx.x], sent_to(q), round, n);
        });
  }

  /// `take` puts what has arrived where it belongs.
  template <class Take>
  __device__ void receive(Take take) {
    const Team team{threadIdx.x - kSenders, kReceivers};
    move(kReceiving, x_.recv_rounds, [&](u32 round) { take(*this, team, round); });
  }

  __device__ void signal_taken(u32& sent) {
    const u32 n = x_.recv_rounds, out = x_.send_rounds, q = threadIdx.x % kWarp;
    signal(
        kReceiving, n,
        [&](u32 round) {
          const bool came = !receives(q, round) || await(&flags(x_.rank)->arrived[q][blockIdx.x], got_from(q), round);
          // In-place, the result must not overwrite what has yet to be sent.
          while (told(&sent) <= round && round < out && works(kSending)) {
          }
          return came;
        },
        [&](u32 round) {  // of the last rounds nobody asks
          if (receives(q, round + kSlots))
            say(kReceiving, &flags(q)->emptied[x_.rank][blockIdx.x], got_from(q), round, n);
        });
  }

  __device__ void take(Team team, u32 round) {
#pragma unroll 1
    for (u32 k = 0; k < x_.ranks; ++k) {
      const u32 q = peer(k);
      const u64 bytes = slice(x_.recv_bytes[q], round);
      const u64 from = q == x_.rank ? x_.source[q] + offset(round) : slot(x_.rank, q, round);
      const u64 to = x_.target[q] + offset(round);
      if (bytes != 0 && to != from) copy_bytes(team, to, from, bytes);
    }
  }

  template <class Format>
  __device__ void reduce(Team team, u32 round) {
    ReductionArguments r;
    r.bytes = slice(x_.recv_bytes[x_.rank], round);
    if (r.bytes == 0) return;
    r.targets = 1;
    r.target[0] = x_.target[0] + offset(round);
    r.sources = x_.ranks;
    r.op = x_.op;
    r.divisor = x_.divisor;
    r.overrange = x_.overrange;
    // In the order of the ranks, so that all get the same bits.
#pragma unroll 1
    for (u32 q = 0; q < x_.ranks; ++q)
      r.source[q] = q == x_.rank ? x_.source[q] + offset(round) : slot(x_.rank, q, round);
    reduce_bytes<Format>(team, r);
  }

 private:
  static constexpr BlockPart kSending{1, kSenders}, kReceiving{5, kReceivers};

  __device__ bool sends(u32 q, u32 round) const { return is_peer(q) && has(x_.send_bytes[q], round); }
  __device__ bool receives(u32 q, u32 round) const { return is_peer(q) && has(x_.recv_bytes[q], round); }
  __device__ MessageKey sent_to(u32 q) const { return message(q, x_.send_bytes[q]); }
  __device__ MessageKey got_from(u32 q) const { return message(q, x_.recv_bytes[q]); }

  /// This rank's piece of a round of equal messages, read once.
  __device__ void multicast(Team team, u32 round) const {
    u64 to[kMostRanks];
#pragma unroll 1
    for (u32 k = 1; k < x_.ranks; ++k) to[k - 1] = slot(peer(k), x_.rank, round);
    const u64 bytes = slice(x_.send_bytes[peer(1)], round);
    multicast_bytes(team, to, x_.ranks - 1, x_.source[peer(1)] + offset(round), bytes);
  }
};

/// take(block, team, round): by the threads of the team.
template <int kSenders, class Take>
__device__ inline void exchange(const Exchange& x, Take take) {
  __shared__ u32 sent;  // rounds
  if (threadIdx.x == 0) sent = 0;
  const Begun begun = begin(x, 1);
  if (begun.idle) return;
  BlockExchange<kSenders> block(x, begun);
  if (threadIdx.x < kSenders)
    block.send();
  else if (threadIdx.x < kMovers)
    block.receive(take);
  else if (threadIdx.x < kMovers + kWarp)
    block.signal_sent(sent);
  else
    block.signal_taken(sent);
}

}  // namespace lanecast::gpu
