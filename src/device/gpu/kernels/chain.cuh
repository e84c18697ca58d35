// SPDX-License-Identifier: Apache-2.0
// Ranks that see each other's memory, along a chain, as one kernel: what a rank gets it passes on at once, into the
// slots of the next one. So each link carries the vector once, and whoever writes to a rank is alone there. Here is
// what all chains do, and the broadcast, whose chain begins with the root.
//
// Of a round r, among a rank p and the next one q (words in the memory of the one that waits for them):
//   p has written its piece     arrived[p] at q     q takes it, and passes it on
//   q has taken it              emptied[q] at p     p may write round r + kSlots
// To all others each rank says once that it has begun, as if it sent them an empty message, and it ends when it has
// heard from all: so what keeps calls apart in an exchange holds here.
#pragma once

#include "device/gpu/kernels/pieces.cuh"

namespace lanecast::gpu {

constexpr int kChainThreads = chain_threads(kWarp);

/// A block's part of it, by so many threads or as BlockPart has it. One warp waits and another one tells: what a rank
/// has passed on must be heard before what comes next is there, or each of the chain would be a round late.
template <int kMoving>
class BlockChain : public BlockPieces {
 public:
  /// first: the rank with which the chain begins.
  __device__ BlockChain(const Exchange& x, const Begun& begun, u32 first)
      : BlockPieces(x, begun), place_((x.rank + x.ranks - first) % x.ranks) {}

  /// pass(team, round): on with its piece.
  template <class Pass>
  __device__ void relay(Pass pass) {
    const Team team{threadIdx.x, kMoving};
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      sync(kBegin, kMoving + kWarp);  // what one thread has acquired, all may read
      if (works(kRelaying)) pass(team, round);
      arrive(kEnd + round % 2, kMoving + kWarp);
    }
  }

  __device__ void signal_begun() {
    const u32 q = threadIdx.x % kWarp;
    bool well = true;
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      if (well && !(well = may_begin(q, round))) halt(halted(kRelaying));
      begin_round(round);
    }
    if (well && is_peer(q) && q != last()) await(&own()->arrived[q][blockIdx.x], message(q, 0), 0);
  }

  __device__ void signal_passed() {
    const u32 q = threadIdx.x % kWarp;
    if (is_peer(q) && q != next()) say(kRelaying, &flags(q)->arrived[x_.rank][blockIdx.x], message(q, 0), 0, 1);
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      end_round(round);
      if (!works(kRelaying)) continue;
      if (is_peer(q) && q == next()) tell(&flags(q)->arrived[x_.rank][blockIdx.x], q, round);
      // Of the last rounds nobody asks.
      if (is_peer(q) && q == last() && round + kSlots < rounds())
        tell(&flags(q)->emptied[x_.rank][blockIdx.x], q, round);
    }
  }

 protected:
  static constexpr BlockPart kRelaying{1, kMoving};

  __device__ u32 rounds() const { return x_.recv_rounds; }
  __device__ bool is_first() const { return place_ == 0; }
  __device__ bool is_last() const { return place_ + 1 == x_.ranks; }
  __device__ u64 piece(u32 round) const { return slice(x_.recv_bytes[x_.rank], round); }
  /// Where the piece of a round has come, and where it is passed on.
  __device__ u64 slot_here(u32 round) const { return slot(x_.rank, last(), round); }
  __device__ u64 slot_there(u32 round) const { return slot(next(), x_.rank, round); }

 private:
  // Barriers by name: all wait at the first one; those who only arrive at the others may be a round ahead.
  static constexpr int kBegin = kRelaying.barriers, kEnd = kBegin + 1, kTold = kEnd + 2;

  /// Who comes behind this rank, and before it; itself where nobody does.
  __device__ u32 next() const { return is_last() ? x_.rank : (x_.rank + 1) % x_.ranks; }
  __device__ u32 last() const { return is_first() ? x_.rank : (x_.rank + x_.ranks - 1) % x_.ranks; }
  __device__ Flags* own() const { return flags(x_.rank); }
  __device__ void tell(u64* flag, u32 q, u32 round) const { say(kRelaying, flag, message(q, 0), round, rounds()); }

  __device__ bool may_begin(u32 q, u32 round) {
    if (!is_peer(q)) return true;
    if (q == last() && !await(&own()->arrived[q][blockIdx.x], message(q, 0), round)) return false;
    return q != next() || round < kSlots || await(&own()->emptied[q][blockIdx.x], message(q, 0), round - kSlots);
  }

  __device__ void begin_round(u32 round) const {
#ifdef LANECAST_BULK
    if (kMoving <= 0) return rounds_of(kRelaying).begin(round);
#endif
    if (round >= 2) sync(kTold + round % 2, 2 * kWarp);  // the movers may arrive at that round's end again
    sync(kBegin, kMoving + kWarp);
  }

  __device__ void end_round(u32 round) const {
#ifdef LANECAST_BULK
    if (kMoving <= 0) return rounds_of(kRelaying).await_end(round);
#endif
    sync(kEnd + round % 2, kMoving + kWarp);
    if (round + 2 < rounds()) arrive(kTold + round % 2, 2 * kWarp);
  }

  u32 place_;  // in the chain
};

/// What a rank gets goes to its output, too.
template <int kMoving>
class BroadcastChain : public BlockChain<kMoving> {
 public:
  __device__ BroadcastChain(const Exchange& x, const Begun& begun) : BlockChain<kMoving>(x, begun, x.root) {}

  /// A round's piece, to wherever it goes from this rank: copy(to, so many, from, bytes).
  template <class Copy>
  __device__ void pass(u32 round, Copy copy) const {
    const Exchange& x = this->x_;
    const u64 bytes = this->piece(round), own = x.source[x.rank], kept = x.target[x.rank];
    u64 to[2];
    int n = 0;
    if (!this->is_first() || kept != own) to[n++] = kept + this->offset(round);
    if (!this->is_last()) to[n++] = this->slot_there(round);
    if (bytes != 0) copy(to, n, this->is_first() ? own + this->offset(round) : this->slot_here(round), bytes);
  }
};

/// Block: one of the chains by threads. pass(block, team, round): its work.
template <class Block, class Pass>
__device__ inline void along_chain(const Exchange& x, Pass pass) {
  const Begun begun = begin(x, 1);
  if (begun.idle) return;
  Block block(x, begun);
  if (threadIdx.x < kMovers)
    block.relay([&](Team team, u32 round) { pass(block, team, round); });
  else if (threadIdx.x < kMovers + kWarp)
    block.signal_begun();
  else
    block.signal_passed();
}

__device__ inline void chain(const Exchange& x) {
  along_chain<BroadcastChain<kMovers>>(x, [](const auto& block, Team team, u32 round) {
    block.pass(round, [&](const u64* to, int n, u64 from, u64 bytes) { multicast_bytes(team, to, n, from, bytes); });
  });
}

#ifdef LANECAST_BULK

/// The same by the copy engine of a multiprocessor, which reads each piece once. Same pieces, slots and words, so a
/// rank may take this kernel and its peer the other.
class PumpedChain : public BroadcastChain<BlockPart::kPump> {
 public:
  using BroadcastChain::BroadcastChain;

  __device__ void pump() const {
    Pump pump(kRelaying.pump, x_.pace_ps);
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      if (!rounds_of(kRelaying).has_begun(round)) pump.settle(round);  // perhaps it does not before a peer has those
      rounds_of(kRelaying).await_begin(round);
      order_bulk();
      if (works(kRelaying))
        pass(round,
             [&](const u64* to, int n, u64 from, u64 bytes) { pump.copy(to[0], from, bytes, n == 2 ? to[1] : 0); });
      pump.end_round();
    }
    pump.end();
  }
};

__device__ inline void pumped_chain(const Exchange& x) {
  if (threadIdx.x == 0) {
    prepare_pumps();
    order_marks();
  }
  const Begun begun = begin(x, 1);
  if (begun.idle) return;
  PumpedChain block(x, begun);
  switch (threadIdx.x / kWarp) {
    case 0:
      if (threadIdx.x == 0) block.pump();
      return;
    case 1:
      return block.signal_begun();
    default:
      return block.signal_passed();
  }
}

#endif

}  // namespace lanecast::gpu
