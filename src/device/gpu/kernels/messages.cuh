// SPDX-License-Identifier: Apache-2.0
// Messages between ranks that see each other's memory, as one kernel: the sender writes pieces into the receiver's
// slots, the receiver copies them out. The two kernels need not have equally many blocks, or the same other peers.
//
// Blocks of a peer take its pieces in turn. Half of the threads send, half receive, each with a warp beside it that
// waits for the next piece before it signals the one before. So a signal may wait for a piece of as many blocks later;
// since both ends' blocks together are fewer than the slots, a chain of such waits leads to ever earlier pieces, and
// ends.
#pragma once

#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/message_arguments.h"
#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

constexpr int kMessageHalf = message_half(kWarp);
static_assert(may_part(kMessageHalf));

/// A block's pieces of a channel, one after the other.
class Pieces {
 public:
  __device__ Pieces(const Messages& x, u32 first, u32 count, u64 begin)
      : x_(x), message_(first), end_(first + count), begin_(begin), next_(blockIdx.x % x.blocks) {}

  /// False behind the last.
  __device__ bool next() {
    index_ = next_;
    next_ += x_.blocks;
    for (; message_ < end_; ++message_) {
      if (index_ < before_ + message().pieces) return true;
      before_ += message().pieces;
    }
    return false;
  }

  __device__ u64 message_bytes() const { return message().bytes; }
  __device__ u64 number() const { return begin_ + index_; }  // in the channel, from 0
  __device__ u32 slot() const { return static_cast<u32>(number() % kMessageSlots); }
  __device__ u64 at() const { return message().at + offset(); }
  __device__ u64 bytes() const { return min(message_bytes() - offset(), u64{message().piece_bytes}); }

 private:
  __device__ u64 offset() const { return (index_ - before_) * message().piece_bytes; }
  __device__ const MessageArguments& message() const { return x_.message[message_]; }

  const Messages& x_;
  u32 message_, end_;
  u64 begin_;
  u64 next_, index_ = 0;  // among this kernel's pieces of the channel
  u64 before_ = 0;        // pieces of earlier messages
};

/// A block's part: the messages to and from one peer.
class BlockMessages {
 public:
  __device__ BlockMessages(const Messages& x, const MessagePeer& peer)
      : x_(x),
        peer_(peer),
        to_(state().to[peer.rank]),
        from_(state().from[peer.rank]),
        waiter_{x.rank, 0, x.timeout_ns, reinterpret_cast<Control*>(x.control),
                reinterpret_cast<FaultRecord*>(x.fault)} {}

  __device__ void send(u32& halted) {
    const Team team{threadIdx.x, kMessageHalf};
    Pieces piece = sends();
    for (u32 round = 0; piece.next(); ++round) {
      sync(kMaySend + round % 2, kMessageHalf + kWarp);
      if (goes_on(halted)) copy_bytes(team, peer_.inbox + piece.slot() * x_.slot_bytes, piece.at(), piece.bytes());
      arrive(kSent + round % 2, kMessageHalf + kWarp);
    }
  }

  __device__ void signal_sent(u32& halted) {
    const bool speaks = threadIdx.x % kWarp == 0;
    Pieces next = sends(), last = sends();
    bool more = next.next(), well = true;
    for (u32 round = 0; more || round > 0; ++round) {
      if (more) {
        if (speaks && well && !(well = may_send(next))) halt(halted);
        arrive(kMaySend + round % 2, kMessageHalf + kWarp);
      }
      if (round > 0) {
        last.next();
        sync(kSent + (round - 1) % 2, kMessageHalf + kWarp);  // all threads have written what release() publishes
        if (speaks && well) {
          SlotNews* const news = &flags(peer_.flags)->arrived[x_.rank][last.slot()];
          news->bytes = last.message_bytes();
          release(&news->piece, last.number() + 1);
        }
        if (!more) return;
      }
      more = next.next();
    }
  }

  __device__ void receive(u32& halted) {
    const Team team{threadIdx.x - kMessageHalf, kMessageHalf};
    Pieces piece = receives();
    const u64 inbox = x_.inbox + own_channel();
    for (u32 round = 0; piece.next(); ++round) {
      sync(kArrived + round % 2, kMessageHalf + kWarp);  // what one thread has acquired, all may read
      if (goes_on(halted)) copy_bytes(team, piece.at(), inbox + piece.slot() * x_.slot_bytes, piece.bytes());
      arrive(kTaken + round % 2, kMessageHalf + kWarp);
    }
  }

  __device__ void signal_taken(u32& halted) {
    const bool speaks = threadIdx.x % kWarp == 0;
    Pieces next = receives(), last = receives();
    bool more = next.next(), well = true;
    for (u32 round = 0; more || round > 0; ++round) {
      if (more) {
        if (speaks && well && !(well = has_arrived(next))) halt(halted);
        arrive(kArrived + round % 2, kMessageHalf + kWarp);
      }
      if (round > 0) {
        last.next();
        sync(kTaken + (round - 1) % 2, kMessageHalf + kWarp);  // all threads have read
        if (speaks && well) release(&flags(peer_.flags)->emptied[x_.rank][last.slot()], last.number() + 1);
        if (!more) return;
      }
      more = next.next();
    }
  }

  /// By one thread of each block, at its end.
  __device__ void end() {
    __threadfence();  // the last block's count stands for all of them
    move_on(to_, peer_.first, peer_.sends);
    move_on(from_, peer_.first + peer_.sends, peer_.receives);
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  enum Barrier { kMaySend = 1, kSent = 3, kArrived = 5, kTaken = 7 };

  __device__ MessageControl& state() const { return *reinterpret_cast<MessageControl*>(x_.message_control); }
  __device__ static MessageFlags* flags(u64 at) { return reinterpret_cast<MessageFlags*>(at); }
  __device__ Pieces sends() const { return {x_, peer_.first, peer_.sends, to_.pieces}; }
  __device__ Pieces receives() const { return {x_, peer_.first + peer_.sends, peer_.receives, from_.pieces}; }
  __device__ u64 own_channel() const {
    return (peer_.rank < x_.rank ? peer_.rank : peer_.rank - 1) * kMessageSlots * x_.slot_bytes;
  }

  __device__ FaultRecord place(WaitKind where, const Pieces& piece) const {
    FaultRecord at{};
    at.peer = peer_.rank;
    at.place = static_cast<u32>(where);
    at.bytes = piece.message_bytes();
    return at;
  }

  /// The slot's last piece has been taken. False after a failure.
  __device__ bool may_send(const Pieces& piece) const {
    if (piece.number() < kMessageSlots) return true;
    const u64 before = piece.number() - kMessageSlots + 1;
    return wait_for(waiter_, &flags(x_.flags)->emptied[peer_.rank][piece.slot()], place(WaitKind::sent, piece),
                    [&](u64 taken) { return taken >= before; });
  }

  __device__ bool has_arrived(const Pieces& piece) const {
    const SlotNews* const news = &flags(x_.flags)->arrived[peer_.rank][piece.slot()];
    FaultRecord at = place(WaitKind::received, piece);
    if (!wait_for(waiter_, &news->piece, at, [&](u64 number) { return number > piece.number(); })) return false;
    at.found_bytes = *static_cast<const volatile u64*>(&news->bytes);
    if (at.found_bytes == at.bytes) return true;
    report(waiter_, at, Fault::mismatch);
    return false;
  }

  __device__ void move_on(ChannelState& channel, u32 first, u32 count) const {
    if (count == 0 || atomicAdd(&channel.ended, 1u) + 1 != x_.blocks) return;
    channel.ended = 0;
    for (u32 k = first; k < first + count; ++k) channel.pieces += x_.message[k].pieces;
  }

  const Messages& x_;
  const MessagePeer& peer_;
  ChannelState &to_, &from_;
  WaitContext waiter_;
};

__device__ inline void run_messages(const Messages& x) {
  __shared__ u32 failed;
  __shared__ u32 sending_halted, receiving_halted;
  if (threadIdx.x == 0) {
    failed = peek(&reinterpret_cast<Control*>(x.control)->failed);
    sending_halted = receiving_halted = 0;
  }
  prepare_barriers();
  __syncthreads();
  BlockMessages block(x, x.peer[blockIdx.x / x.blocks]);
  if (failed == 0) {
    if (threadIdx.x < kMessageHalf)
      block.send(sending_halted);
    else if (threadIdx.x < 2 * kMessageHalf)
      block.receive(receiving_halted);
    else if (threadIdx.x < 2 * kMessageHalf + kWarp)
      block.signal_sent(sending_halted);
    else
      block.signal_taken(receiving_halted);
  }
  __syncthreads();
  if (threadIdx.x == 0) block.end();
}

}  // namespace lanecast::gpu
