// SPDX-License-Identifier: Apache-2.0
// What the host hands to the kernel of messages between two ranks, and the memory that the two share. A channel goes
// from one rank to another: slots at the receiver through which pieces pass in order, numbered for as long as the group
// lives. Its state is its own, so that only these two take part, and kernels of other channels may run beside.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kMessageBlocks = 64;        // of a kernel, at most, but for one for each peer
constexpr int kMessageThreads = 512;      // of a block
constexpr int kMessageSlots = 144;        // of a channel
constexpr u64 kMessageSlotBytes = 65536;  // at most
constexpr u64 kShortestPiece = 4096;      // bytes, but for a message's last
constexpr u64 kPieces = 64;               // that a message is cut into, unless they would be shorter, or too long
constexpr int kMessages = 128;            // of a kernel: what fits beside the rest into 4 KiB of arguments
// A block is a piece ahead in waiting, on either side; see messages.cuh.
static_assert(2 * kMessageBlocks < kMessageSlots);

/// Of a channel, in the receiver's memory; the sender writes it.
struct SlotNews {
  u64 piece;  // that lies in the slot, counted from 1; written last
  u64 bytes;  // of the whole message
};

/// What the peers write into a rank's memory.
struct MessageFlags {
  SlotNews arrived[kMostRanks][kMessageSlots];
  u64 emptied[kMostRanks][kMessageSlots];  // the last piece, counted from 1, that the peer has taken out of that slot
};

/// A rank's own state of its channels: to each peer, and from each.
struct ChannelState {
  u64 pieces;  // through so far
  u32 ended;   // blocks of the kernel that is at work on it
  u32 unused;
};
struct MessageControl {
  ChannelState to[kMostRanks], from[kMostRanks];
};

struct MessageArguments {
  u64 at, bytes;
  u32 pieces;  // an empty message is one, too
  u32 piece_bytes;
};

/// Messages with one peer, in their order: first those to it, then those from it.
struct MessagePeer {
  u32 rank;
  u32 first, sends, receives;  // of Messages::message
  u64 inbox;                   // where its slots of the channel from here lie
  u64 flags;                   // its MessageFlags
};

/// All messages of a kernel move at once, but for those of a channel, which come one after the other.
struct Messages {
  u32 rank, peers;
  u32 blocks;  // for each peer
  u32 unused;
  u64 slot_bytes;
  u64 timeout_ns;
  u64 inbox;            // of this rank, for all peers
  u64 flags;            // of this rank: MessageFlags
  u64 message_control;  // MessageControl
  u64 control;          // Control
  u64 fault;            // FaultRecord
  MessagePeer peer[kMostRanks - 1];
  MessageArguments message[kMessages];
};
static_assert(sizeof(Messages) <= 4096);

/// Threads of a block that send, and threads that receive; beside either a warp of so many waits and signals for it.
constexpr int message_half(int warp) { return kMessageThreads / 2 - warp; }

/// The more ranks, the shorter the slots, as those of the collectives.
constexpr u64 message_slot_bytes(u32 ranks) { return kMessageSlotBytes / (ranks <= 4 ? 1 : ranks <= 8 ? 2 : 4); }

/// Bytes of a channel's slots.
constexpr u64 channel_bytes(u32 ranks) { return kMessageSlots * message_slot_bytes(ranks); }

/// Where the channel from a peer begins in a rank's inbox, which has none from itself.
constexpr u64 channel_offset(u32 from, u32 to, u32 ranks) {
  return (from < to ? from : from - 1) * channel_bytes(ranks);
}

/// Both ends cut a message alike.
constexpr MessageArguments message(u64 at, u64 bytes, u64 slot_bytes) {
  const u64 share = (bytes + kPieces - 1) / kPieces, wanted = share < kShortestPiece ? kShortestPiece : share;
  const u64 piece = wanted < slot_bytes ? (wanted + 15) / 16 * 16 : slot_bytes;
  return {at, bytes, static_cast<u32>(bytes == 0 ? 1 : (bytes + piece - 1) / piece), static_cast<u32>(piece)};
}

}  // namespace lanecast::gpu
