// SPDX-License-Identifier: Apache-2.0
// A collective among ranks that see each other's memory, as one kernel: each rank writes its messages into the others'
// slots and combines what arrives in its own. At most kMostBlocks blocks, since they wait for those of other ranks and
// have to be resident together with whatever else waits on the device.
//
// Block b carries the b-th slice of every round of every message and speaks to the blocks b of other ranks only. Some
// of its threads send, the others receive. A slot is written anew when the receiver has emptied it, and in another call
// two calls later: a rank that begins call c has had word of everyone's call c - 1, so everyone has ended c - 2.
#pragma once

#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

constexpr int kExchangeThreads = exchange_threads(kWarp);
static_assert(may_part(kCopySenders) && may_part(kReduceSenders) && may_part(kMovers));

/// A block's part of an exchange.
template <int kSenders>
class BlockExchange {
  static constexpr int kReceivers = kMovers - kSenders;

 public:
  __device__ BlockExchange(const Exchange& x, u32 call)
      : x_(x),
        call_(call),
        stride_(x.slice_bytes * gridDim.x),
        waiter_{x.rank, x.signature, x.timeout_ns, reinterpret_cast<Control*>(x.control),
                reinterpret_cast<FaultRecord*>(x.fault)} {}

  __device__ u64 offset(u32 round) const { return round * stride_ + blockIdx.x * x_.slice_bytes; }

  __device__ u64 slice(u64 bytes, u32 round) const {
    const u64 begin = offset(round);
    return begin >= bytes ? 0 : min(bytes - begin, x_.slice_bytes);
  }

  /// Where rank `from` leaves this block's piece of a round, in the inbox of rank `in`.
  __device__ u64 slot(u32 in, u32 from, u32 round) const {
    const u64 message = (call_ % kAreas) * (x_.ranks - 1) + (from < in ? from : from - 1);
    return x_.inbox[in] + message * x_.room_bytes + (round % kSlots * gridDim.x + blockIdx.x) * x_.slot_bytes;
  }

  // Four parts of a block, each with its threads. Those that move data wait for nothing but their signalling warp,
  // which is a round ahead in waiting and a round behind in signalling: a signal takes microseconds, as it comes after
  // all that was written.

  __device__ void send() {
    const Team team{threadIdx.x, kSenders};
    const u32 n = x_.send_rounds;
    for (u32 round = 0; round < n; ++round) {
      sync(kMaySend + round % 2, kSenders + kWarp);
      write(team, round);
      arrive(kSent + round % 2, kSenders + kWarp);
    }
  }

  __device__ void signal_sent(u32& sent) {
    const u32 n = x_.send_rounds, q = threadIdx.x % kWarp;
    for (u32 round = 0; round <= n; ++round) {
      if (round < n) {
        if (round >= kSlots && sends(q, round))
          await(&flags(x_.rank)->emptied[q][blockIdx.x], sent_to(q), round - kSlots);
        arrive(kMaySend + round % 2, kSenders + kWarp);
      }
      if (round == 0) continue;
      sync(kSent + (round - 1) % 2, kSenders + kWarp);  // all threads have written what release() publishes
      tell(&sent, round);
      if (sends(q, round - 1)) say(&flags(q)->arrived[x_.rank][blockIdx.x], sent_to(q), round - 1, n);
    }
  }

  /// `take` puts what has arrived where it belongs.
  template <class Take>
  __device__ void receive(Take take) {
    const Team team{threadIdx.x - kSenders, kReceivers};
    const u32 n = x_.recv_rounds;
    for (u32 round = 0; round < n; ++round) {
      sync(kArrived + round % 2, kReceivers + kWarp);  // what one thread has acquired, all may read
      take(*this, team, round);
      arrive(kTaken + round % 2, kReceivers + kWarp);
    }
  }

  __device__ void signal_taken(u32& sent) {
    const u32 n = x_.recv_rounds, out = x_.send_rounds, q = threadIdx.x % kWarp;
    for (u32 round = 0; round <= n; ++round) {
      if (round < n) {
        if (receives(q, round)) await(&flags(x_.rank)->arrived[q][blockIdx.x], got_from(q), round);
        // In-place, the result must not overwrite what has yet to be sent.
        while (told(&sent) <= round && round < out) {
        }
        arrive(kArrived + round % 2, kReceivers + kWarp);
      }
      if (round == 0) continue;
      sync(kTaken + (round - 1) % 2, kReceivers + kWarp);  // all threads have read
      // Of the last rounds nobody asks.
      if (receives(q, round - 1 + kSlots)) say(&flags(q)->emptied[x_.rank][blockIdx.x], got_from(q), round - 1, n);
    }
  }

  __device__ void take(Team team, u32 round) {
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
    Reduction r;
    r.bytes = slice(x_.recv_bytes[x_.rank], round);
    if (r.bytes == 0) return;
    r.targets = 1;
    r.target[0] = x_.target[0] + offset(round);
    r.sources = x_.ranks;
    r.op = x_.op;
    r.divisor = x_.divisor;
    // In the order of the ranks, so that all get the same bits.
    for (u32 q = 0; q < x_.ranks; ++q)
      r.source[q] = q == x_.rank ? x_.source[q] + offset(round) : slot(x_.rank, q, round);
    reduce_bytes<Format>(team, r);
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  enum Barrier { kMaySend = 1, kSent = 3, kArrived = 5, kTaken = 7 };

  __device__ bool has(u64 bytes, u32 round) const { return round == 0 || round * stride_ < bytes; }
  __device__ bool sends(u32 q, u32 round) const { return is_peer(q) && has(x_.send_bytes[q], round); }
  __device__ bool receives(u32 q, u32 round) const { return is_peer(q) && has(x_.recv_bytes[q], round); }

  /// This rank's pieces of a round into the others' slots.
  __device__ void write(Team team, u32 round) const {
    if (x_.multicast) {
      u64 to[kMostRanks];
      for (u32 k = 1; k < x_.ranks; ++k) to[k - 1] = slot(peer(k), x_.rank, round);
      const u64 bytes = slice(x_.send_bytes[peer(1)], round);
      return multicast_bytes(team, to, x_.ranks - 1, x_.source[peer(1)] + offset(round), bytes);
    }
    for (u32 k = 1; k < x_.ranks; ++k) {
      const u32 q = peer(k);
      const u64 bytes = slice(x_.send_bytes[q], round);
      if (bytes != 0) copy_bytes(team, slot(q, x_.rank, round), x_.source[q] + offset(round), bytes);
    }
  }

  /// Ranks begin with different peers, so that not all write to one of them.
  __device__ u32 peer(u32 k) const { return (x_.rank + k) % x_.ranks; }
  __device__ Flags* flags(u32 q) const { return reinterpret_cast<Flags*>(x_.flags[q]); }

  /// A message by what its two ranks must agree on, in 16 bits.
  struct Message {
    u32 peer, signature;
  };
  __device__ Message message(u32 q, u64 bytes) const {
    constexpr u64 kSpread = 0x9e3779b97f4a7c15;  // of which the upper bits tell lengths apart
    return {q, x_.own_counts ? x_.signature ^ static_cast<u32>(bytes * kSpread >> 48) : x_.signature};
  }
  __device__ Message sent_to(u32 q) const { return message(q, x_.send_bytes[q]); }
  __device__ Message got_from(u32 q) const { return message(q, x_.recv_bytes[q]); }

  /// To a peer, of a round out of so many.
  __device__ void say(u64* flag, Message message, u32 round, u32 rounds) const {
    const u64 word = u64{call_} << 32 | u64{message.signature} << 16 | (round + 1);
    if (rounds > kSlots)
      release_in_flow(flag, word);
    else
      release(flag, word);
  }

  __device__ bool is_peer(u32 q) const { return q < x_.ranks && q != x_.rank; }

  /// A peer may be a call ahead already: then it has had all of this one.
  __device__ void await(const u64* flag, Message message, u32 round) {
    FaultRecord place{};
    place.peer = message.peer;
    place.call = call_;
    place.round = round;
    place.place = static_cast<u32>(Place::piece);
    wait_for(waiter_, flag, place, [&](u64 value) {
      if ((value & 0xffff) == 0) return false;  // as the memory was made: pieces count from 1
      const int ahead = static_cast<int>(static_cast<u32>(value >> 32) - call_);
      if (ahead != 0) return ahead == 1;  // what was left there long ago is neither
      place.found = static_cast<u32>(value >> 16) & 0xffff;
      if (place.found != message.signature) {
        report(waiter_, place, Fault::mismatch);
        return true;
      }
      return (value & 0xffff) > round;
    });
  }

  const Exchange& x_;
  u32 call_;
  u64 stride_;
  Waiter waiter_;
};

/// take(block, team, round): by the threads of the team.
template <int kSenders, class Take>
__device__ inline void exchange(const Exchange& x, Take take) {
  Control* const control = reinterpret_cast<Control*>(x.control);
  __shared__ u32 idle, call;
  __shared__ u32 sent;  // rounds
  if (threadIdx.x == 0) {
    const u32 failed = peek(&control->failed), taken = look(&control->taken), next = look(&control->call);  // at once
    idle = failed | (x.offered & taken);
    call = next;
    sent = 0;
  }
  prepare_barriers();
  __syncthreads();
  // By a warp that has to wait for the peers first.
  if (threadIdx.x == kExchangeThreads - 1 && comes_last(control)) control->call += 1;
  if (idle != 0) return;
  BlockExchange<kSenders> block(x, call);
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
