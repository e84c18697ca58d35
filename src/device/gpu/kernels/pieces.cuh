// SPDX-License-Identifier: Apache-2.0
// What calls among ranks that see each other's memory share: messages cut into pieces, which lie in slots at those who
// take them. At most kMostBlocks blocks, since they wait for those of other ranks and have to be resident together with
// whatever else waits on the device.
//
// Block b carries the b-th slice of every round of every message and speaks to the blocks b of other ranks only. A slot
// is written anew when the receiver has emptied it, and in another call two calls later: a rank that begins call c has
// had word of everyone's call c - 1, so everyone has ended c - 2.
#pragma once

#include "device/gpu/kernels/adding.cuh"
#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/pump.cuh"
#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

constexpr int kBarrierNames = 16;  // of a block

/// A part of a block: its first barrier by name, and the threads that do its work, or the copy engine for one of a
/// warp.
struct BlockPart {
  int barriers, movers, pump = 0;
  static constexpr int kPump = 0, kAdders = -1;  // instead of so many movers
};

/// The number of a call that counts for so many, and whether it has nothing to do.
struct Begun {
  u32 call;
  bool idle;
  u32* halted;  // of each part of a block, by its first barrier
};

/// By all threads of a block, of which the last one has to wait for the peers first.
__device__ inline Begun begin(const Exchange& x, u32 calls) {
  Control* const control = reinterpret_cast<Control*>(x.control);
  __shared__ u32 idle, call, halted[kBarrierNames];
  if (threadIdx.x == 0) {
    const u32 failed = peek(&control->failed), taken = look(&control->taken), next = look(&control->call);  // at once
    idle = failed | (x.offered & taken);
    call = next;
  }
  if (threadIdx.x < kBarrierNames) halted[threadIdx.x] = 0;
  prepare_barriers();
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1 && comes_last(control)) control->call += calls;
  return {call, idle != 0, halted};
}

/// A block's pieces of the messages of a call, and the words by which ranks tell each other of them.
class BlockPieces {
 public:
  __device__ BlockPieces(const Exchange& x, const Begun& begun)
      : x_(x),
        call_(begun.call),
        halted_(begun.halted),
        stride_(x.slice_bytes * gridDim.x),
        waiter_{x.rank, x.signature, x.timeout_ns, reinterpret_cast<Control*>(x.control),
                reinterpret_cast<FaultRecord*>(x.fault)} {}

 protected:
  // The threads of a part of a block, which move data, wait for nothing but their signalling warp. That is a round
  // ahead in waiting and a round behind in signalling: a signal takes microseconds, as it comes after all that was
  // written. A part has four barriers by name, since those who only arrive may be a round ahead of those who wait. A
  // copy engine's has marks instead, and a warp that waits beside one that tells: what it moves comes some rounds
  // later. When a wait has failed, all parts still go through their rounds, so that none waits for ever for another;
  // but what they move then is not what it should be, and no peer may take it: that one may be well, and end its call.

  /// By the threads of a part: work(round).
  template <class Work>
  __device__ void move(BlockPart part, u32 rounds, Work work) {
#pragma unroll 1
    for (u32 round = 0; round < rounds; ++round) {
      sync(part.barriers + round % 2, part.movers + kWarp);  // what one thread has acquired, all may read
      if (works(part)) work(round);
      arrive(part.barriers + 2 + round % 2, part.movers + kWarp);
    }
  }

  /// By its signalling warp, or two: wait(round) before the work, false where that fails, and tell(round) behind it.
  template <class Wait, class Tell>
  __device__ void signal(BlockPart part, u32 rounds, Wait wait, Tell tell) {
    const bool waits = part.movers > 0 || threadIdx.x / kWarp % 2 == 0, tells = part.movers > 0 || !waits;
    bool well = true;
#pragma unroll 1
    for (u32 round = 0; round <= rounds; ++round) {
      if (waits && round < rounds) {
        if (well && !(well = wait(round))) halt(halted(part));
        begin_work(part, round);
      }
      if (!tells || round == 0) continue;
      await_work(part, round - 1);
      if (works(part)) tell(round - 1);
    }
  }

  /// The pieces of a round, out of messages of so many bytes to or from each peer: visit(peer, bytes).
  template <class Visit>
  __device__ void each_piece(const u64* messages, u32 round, Visit visit) const {
#pragma unroll 1
    for (u32 k = 1; k < x_.ranks; ++k) {
      const u32 q = peer(k);
      const u64 bytes = slice(messages[q], round);
      if (bytes != 0) visit(q, bytes);
    }
  }

  /// This rank's pieces of a round, and the others' slots for them: copy(to, from, bytes).
  template <class Copy>
  __device__ void send_pieces(u32 round, Copy copy) const {
    each_piece(x_.send_bytes, round,
               [&](u32 q, u64 bytes) { copy(slot(q, x_.rank, round), x_.source[q] + offset(round), bytes); });
  }

  __device__ u64 offset(u32 round) const { return round * stride_ + blockIdx.x * x_.slice_bytes; }

  __device__ u64 slice(u64 bytes, u32 round) const {
    const u64 begin = offset(round);
    return begin >= bytes ? 0 : min(bytes - begin, x_.slice_bytes);
  }

  /// Has a message of so many bytes a piece of this round? Even an empty one has the first.
  __device__ bool has(u64 bytes, u32 round) const { return round == 0 || round * stride_ < bytes; }

  /// Where rank `from` leaves this block's piece of a round, in the inbox of rank `in`, as part of a call's first
  /// messages or of its second ones.
  __device__ u64 slot(u32 in, u32 from, u32 round, u32 second = 0) const {
    const u64 message = ((call_ + second) % kAreas) * (x_.ranks - 1) + (from < in ? from : from - 1);
    return x_.inbox[in] + message * x_.room_bytes + (round % kSlots * gridDim.x + blockIdx.x) * x_.slot_bytes;
  }

  /// The k-th peer, from 1; 0: this rank. Ranks and blocks begin with different ones, so that all are written to at any
  /// time, and none by all.
  __device__ u32 peer(u32 k) const {
    if (k == 0) return x_.rank;
    return (x_.rank + 1 + (k - 1 + blockIdx.x) % (x_.ranks - 1)) % x_.ranks;
  }
  __device__ bool is_peer(u32 q) const { return q < x_.ranks && q != x_.rank; }
  __device__ Flags* flags(u32 q) const { return reinterpret_cast<Flags*>(x_.flags[q]); }

  /// A message by what its two ranks must agree on, in 16 bits.
  struct MessageKey {
    u32 peer, signature;
  };
  __device__ MessageKey message(u32 q, u64 bytes) const {
    constexpr u64 kSpread = 0x9e3779b97f4a7c15;  // of which the upper bits tell lengths apart
    return {q, x_.own_counts ? x_.signature ^ static_cast<u32>(bytes * kSpread >> 48) : x_.signature};
  }

  /// To a peer, of a part's round out of so many.
  __device__ void say(BlockPart part, u64* flag, MessageKey message, u32 round, u32 rounds) const {
    const u64 word = u64{call_} << 32 | u64{message.signature} << 16 | (round + 1);
    if (part.movers > 0 && rounds > kSlots)
      release_in_flow(flag, word);
    else
      release(flag, word);
  }

  /// A peer may be a call ahead already: then it has had all of this one. False after a failure, or where it has made
  /// another call.
  __device__ bool await(const u64* flag, MessageKey message, u32 round) {
    FaultRecord place{};
    place.peer = message.peer;
    place.call = call_;
    place.round = round;
    place.place = static_cast<u32>(WaitKind::piece);
    bool differs = false;
    const bool came = wait_for(waiter_, flag, place, [&](u64 value) {
      if ((value & 0xffff) == 0) return false;  // as the memory was made: pieces count from 1
      const int ahead = static_cast<int>(static_cast<u32>(value >> 32) - call_);
      if (ahead != 0) return ahead > 0 && ahead <= kAreas;  // what was left there long ago is neither
      place.found = static_cast<u32>(value >> 16) & 0xffff;
      differs = place.found != message.signature;
      if (differs) report(waiter_, place, Fault::mismatch);
      return differs || (value & 0xffff) > round;
    });
    return came && !differs;
  }

#ifdef LANECAST_BULK
  __device__ static Rounds& rounds_of(BlockPart part) {
    return part.movers == BlockPart::kAdders ? adder_memory().rounds : pump_memory(part.pump).rounds;
  }
#endif

  __device__ bool works(BlockPart part) const { return goes_on(halted(part)); }
  __device__ u32& halted(BlockPart part) const { return halted_[part.barriers]; }

  const Exchange& x_;

 private:
  // By the signalling warp.

  __device__ void begin_work(BlockPart part, u32 round) const {
#ifdef LANECAST_BULK
    if (part.movers <= 0) return rounds_of(part).begin(round);
#endif
    arrive(part.barriers + round % 2, part.movers + kWarp);
  }

  /// Until the part has read, and written what is published.
  __device__ void await_work(BlockPart part, u32 round) const {
#ifdef LANECAST_BULK
    if (part.movers <= 0) return rounds_of(part).await_end(round);
#endif
    sync(part.barriers + 2 + round % 2, part.movers + kWarp);
  }

  u32 call_;
  u32* halted_;
  u64 stride_;
  WaitContext waiter_;
};

}  // namespace lanecast::gpu
