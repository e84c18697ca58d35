// SPDX-License-Identifier: Apache-2.0
// Messages between ranks that see each other's memory, as one kernel: the sender writes pieces into the receiver's
// slots, the receiver copies them out. The two kernels need not have equally many blocks, or the same other peers.
//
// Blocks of a peer take its pieces in turn. Half of the threads send, half receive, each with a warp beside it that
// waits for the next piece before it signals the one before. So a signal may wait for a piece of as many blocks later;
// since both ends' blocks together are fewer than the slots, a chain of such waits leads to ever earlier pieces, and
// ends.
#pragma once

#include "device/gpu/kernels/inline_messages.cuh"

namespace lanecast::gpu {

constexpr int kMessageHalf = message_half(kWarp);
static_assert(may_part(kMessageHalf));

/// A block's pieces of a channel, one after the other.
class Pieces {
 public:
  struct BlockOfPeer {
    u32 number, blocks;
  };
  __device__ Pieces(const Messages& x, const ChannelEnd& channel, bool carried, u32 first, u32 count, BlockOfPeer block)
      : x_(x),
        channel_(channel),
        carried_(carried),
        message_(first),
        end_(first + count),
        blocks_(block.blocks),
        begin_(reinterpret_cast<const ChannelState*>(channel.state)->pieces),
        next_(block.number) {}

  /// False behind the last.
  __device__ bool next() {
    index_ = next_;
    next_ += blocks_;
    for (; message_ < end_; ++message_) {
      if (index_ < before_ + message().pieces) return true;
      before_ += message().pieces;
    }
    return false;
  }

  __device__ u64 message_bytes() const { return message().bytes; }
  __device__ u64 number() const { return begin_ + index_; }  // in the channel, from 0
  __device__ u32 in_message() const { return static_cast<u32>(index_ - before_); }
  __device__ u64 at() const { return message().at + offset(); }
  __device__ u64 bytes() const { return min(message_bytes() - offset(), u64{message().piece_bytes}); }

  __device__ int on_host() const { return message_bytes() < channel_.least_on_gpu ? 1 : 0; }

  /// Of a piece: where what is said of it stands.
  __device__ u32 word(u64 number) const { return static_cast<u32>(number % channel_.depth[0]); }
  /// The piece that was in this one's place before is so many before it.
  __device__ u32 depth() const { return channel_.depth[on_host()]; }
  __device__ u64 slot() const {
    const u32 behind = carried_ ? in_message() - parcel_with(in_message(), message().pieces).first : 0;
    return channel_.slots[on_host()] + ((number() - behind) % depth() + behind) * channel_.slot_bytes;
  }

 private:
  __device__ u64 offset() const { return (index_ - before_) * message().piece_bytes; }
  __device__ const MessageArguments& message() const { return x_.message[message_]; }
  const Messages& x_;
  const ChannelEnd& channel_;
  bool carried_;
  u32 message_, end_, blocks_;
  u64 begin_;
  u64 next_, index_ = 0;  // among this kernel's pieces of the channel
  u64 before_ = 0;        // pieces of earlier messages
};

/// A block's part: the messages to and from one peer.
class BlockMessages {
 public:
  __device__ BlockMessages(const Messages& x, const MessagePeer& peer, const MessageEnds& ends)
      : x_(x),
        peer_(peer),
        ends_(ends),
        waiter_{x.rank, 0, x.timeout_ns, reinterpret_cast<Control*>(x.control),
                reinterpret_cast<FaultRecord*>(x.fault)} {}

  __device__ void send(u32& halted) {
    const Team team{threadIdx.x, kMessageHalf};
    Pieces piece = sends();
    for (u32 round = 0; piece.next(); ++round) {
      sync(kMaySend + round % 2, kMessageHalf + kWarp);
      if (goes_on(halted)) {
        if (is_inline(piece))
          put_inline(team, inlined(ends_.to, piece));
        else
          copy_bytes(team, piece.slot(), piece.at(), piece.bytes());
      }
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
        if (speaks && well && !is_inline(last)) {
          SlotNews* const news = reinterpret_cast<SlotNews*>(ends_.to.news) + last.word(last.number());
          news->bytes = last.message_bytes();
          release(&news->piece, last.number() + 1);
        }
        if (!more) {
          if (speaks && well) look_ahead(last);
          return;
        }
      }
      more = next.next();
    }
  }

  __device__ void receive(u32& halted) {
    const Team team{threadIdx.x - kMessageHalf, kMessageHalf};
    say_wanted(team);
    Pieces piece = receives();
    for (u32 round = 0; piece.next(); ++round) {
      sync(kArrived + round % 2, kMessageHalf + kWarp);  // what one thread has acquired, all may read
      if (goes_on(halted)) {
        if (!is_inline(piece))
          copy_bytes(team, piece.at(), piece.slot(), piece.bytes());
        else if (!take_inline(team, inlined(ends_.from, piece), waiter_, place(WaitKind::received, piece),
                              wakefulness(piece)))
          halt(halted);
      }
      arrive(kTaken + round % 2, kMessageHalf + kWarp);
    }
  }

  __device__ void signal_taken(u32& halted) {
    const bool speaks = threadIdx.x % kWarp == 0;
    Pieces next = receives(), last = receives();
    bool more = next.next(), well = true;
    for (u32 round = 0; more || round > 0; ++round) {
      if (more) {
        const bool waits = speaks && !is_inline(next);
        if (waits && well && !(well = has_arrived(next))) halt(halted);
        arrive(kArrived + round % 2, kMessageHalf + kWarp);
        // Another look at the host's memory, while the piece is copied; once a message.
        if (waits && well && next.in_message() < peer_.blocks && !(well = is_as_long(next))) halt(halted);
      }
      if (round > 0) {
        last.next();
        sync(kTaken + (round - 1) % 2, kMessageHalf + kWarp);  // all threads have read
        if (speaks && well && goes_on(halted)) {
          u64* const word = reinterpret_cast<u64*>(ends_.from.emptied) + last.word(last.number());
          if (last.in_message() < kFewInRow * peer_.blocks)
            let_go(word, last.number() + 1);
          else
            release(word, last.number() + 1);
        }
        if (!more) return;
      }
      more = next.next();
    }
  }

  /// By one thread of each block, at its end.
  __device__ void end() {
    __threadfence();  // the last block's count stands for all of them
    move_on(state(ends_.to), peer_.first, peer_.sends);
    move_on(state(ends_.from), peer_.first + peer_.sends, peer_.receives);
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  enum Barrier { kMaySend = 1, kSent = 3, kArrived = 5, kTaken = 7 };

  __device__ static ChannelState& state(const ChannelEnd& channel) {
    return *reinterpret_cast<ChannelState*>(channel.state);
  }
  __device__ u32 number() const { return blockIdx.x - (peer_.end_block - peer_.blocks); }  // among those of the peer
  __device__ Pieces pieces(const ChannelEnd& channel, u32 first, u32 count) const {
    return {x_, channel, ends_.carried != 0, first, count, {number(), peer_.blocks}};
  }
  __device__ Pieces sends() const { return pieces(ends_.to, peer_.first, peer_.sends); }
  __device__ Pieces receives() const { return pieces(ends_.from, peer_.first + peer_.sends, peer_.receives); }

  /// To the proxy, which asks the other host for messages of these lengths. By the threads of one block.
  __device__ void say_wanted(Team team) const {
    if (ends_.wanted == 0 || number() != 0) return;
    for (u32 k = team.index; k < peer_.receives; k += team.size) {
      const u64 which = state(ends_.from).messages + k;
      SlotNews* const wanted = reinterpret_cast<SlotNews*>(ends_.wanted) + which % kWanted;
      wanted->bytes = x_.message[peer_.first + peer_.sends + k].bytes;
      release(&wanted->piece, which + 1);
    }
  }

  __device__ bool is_inline(const Pieces& piece) const {
    return ends_.carried != 0 && piece.message_bytes() <= kInlineBytes;
  }
  __device__ static InlineMessage inlined(const ChannelEnd& channel, const Pieces& piece) {
    return {reinterpret_cast<u64*>(channel.inlined) + piece.word(piece.number()) * kInlineWords, piece.number(),
            piece.at(), piece.message_bytes()};
  }

  __device__ FaultRecord place(WaitKind where, const Pieces& piece) const {
    FaultRecord at{};
    at.peer = peer_.rank;
    at.place = static_cast<u32>(where);
    at.bytes = piece.message_bytes();
    return at;
  }

  /// Naps between looks at the host's memory, as programs do; behind a message's first parcels others are under way.
  __device__ Wakefulness wakefulness(const Pieces& piece) const {
    if (!ends_.carried) return Wakefulness::eager;
    return piece.in_message() < 2 * kLongestParcel ? Wakefulness::drowsy : Wakefulness::asleep;
  }

  /// For the next kernel, whose short message need not look at the host's memory before it is put.
  __device__ void look_ahead(const Pieces& last) const {
    if (ends_.carried == 0 || peer_.blocks > 1 || last.on_host() == 0) return;
    const u64 next = last.number() + 1, depth = ends_.to.depth[1];
    const auto taken = [&](u64 piece) {
      return acquire(reinterpret_cast<const u64*>(ends_.to.emptied) + last.word(piece)) > piece;
    };
    if (next < depth || taken(next - depth)) state(ends_.to).room = next + 1;
  }

  /// What was in its place before has been taken. False after a failure.
  __device__ bool may_send(const Pieces& piece) const {
    if (piece.number() < piece.depth() || (piece.on_host() && piece.number() < state(ends_.to).room)) return true;
    const u64 before = piece.number() - piece.depth();
    return wait_for(
        waiter_, reinterpret_cast<const u64*>(ends_.to.emptied) + piece.word(before), place(WaitKind::sent, piece),
        [&](u64 taken) { return taken > before; }, wakefulness(piece));
  }

  __device__ bool has_arrived(const Pieces& piece) const {
    const auto is_here = [&](u64 number) { return number > piece.number(); };
    return wait_for(waiter_, &news_of(piece)->piece, place(WaitKind::received, piece), is_here, wakefulness(piece));
  }

  __device__ const SlotNews* news_of(const Pieces& piece) const {
    return reinterpret_cast<const SlotNews*>(ends_.from.news) + piece.word(piece.number());
  }

  /// Of a piece that has arrived and has not been let go of.
  __device__ bool is_as_long(const Pieces& piece) const {
    FaultRecord at = place(WaitKind::received, piece);
    at.found_bytes = *static_cast<const volatile u64*>(&news_of(piece)->bytes);
    if (at.found_bytes == at.bytes) return true;
    report(waiter_, at, Fault::mismatch);
    return false;
  }

  __device__ void move_on(ChannelState& channel, u32 first, u32 count) const {
    if (count == 0 || atomicAdd(&channel.ended, 1u) + 1 != peer_.blocks) return;
    channel.ended = 0;
    channel.messages += count;
    for (u32 k = first; k < first + count; ++k) channel.pieces += x_.message[k].pieces;
  }

  const Messages& x_;
  const MessagePeer& peer_;
  const MessageEnds& ends_;
  WaitContext waiter_;
};

/// Of this block: the peer whose messages it carries.
__device__ inline const MessagePeer& peer_of_block(const Messages& x) {
  u32 k = 0;
  while (blockIdx.x >= x.peer[k].end_block) ++k;
  return x.peer[k];
}

__device__ inline void run_messages(const Messages& x) {
  __shared__ u32 failed;
  __shared__ u32 sending_halted, receiving_halted;
  __shared__ MessageEnds ends;
  const MessagePeer& peer = peer_of_block(x);
  constexpr u32 kWords = sizeof(MessageEnds) / sizeof(u64);
  for (u32 k = threadIdx.x; k < kWords; k += blockDim.x)
    reinterpret_cast<u64*>(&ends)[k] = reinterpret_cast<const u64*>(peer.ends)[k];
  if (threadIdx.x == 0) {
    failed = peek(&reinterpret_cast<Control*>(x.control)->failed);
    sending_halted = receiving_halted = 0;
  }
  prepare_barriers();
  __syncthreads();
  BlockMessages block(x, peer, ends);
  if (failed == kEnded) {  // a graph outlives its communicator, and nobody else can say so
    if (threadIdx.x == 0) fail_launch();
    return;
  }
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
