// SPDX-License-Identifier: Apache-2.0
// What the host hands to the kernel of messages between two ranks, and the memory that the two share. A channel goes
// from one rank to another: slots through which pieces pass in order, numbered for as long as the group lives. Its
// state is its own, so that only these two take part, and kernels of other channels may run beside.
//
// Within a host the slots lie at the receiver. Between hosts either rank has slots of its own, and a proxy on each host
// stands in for the other rank: it sends what has been put here, as parcels of pieces that lie together, and puts here
// what has come.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kMessageBlocks = 64;        // of a kernel, at most; more where it has more peers
constexpr int kMessageThreads = 512;      // of a block
constexpr int kMessageSlots = 288;        // of a channel within a host
constexpr u64 kMessageSlotBytes = 65536;  // at most
constexpr u64 kShortestPiece = 4096;      // bytes, but for a message's last
constexpr u64 kPieces = 64;               // that a message is cut into, unless they would be shorter, or too long
constexpr int kMessages = 128;            // of a kernel: what fits beside the rest into 4 KiB of arguments
constexpr int kMessagePeers = 28;         // likewise
// A block is a piece ahead in waiting, on either side; see messages.cuh.
static_assert(2 * kMessageBlocks < kMessageSlots);

// Of a channel between hosts.
constexpr int kCarriedSlots = 256;
constexpr int kStagedSlots = 64;  // for messages on the host, where others lie on the GPU
constexpr u64 kCarriedSlotBytes = 32768;
constexpr u32 kShortestParcel = 4;  // slots; a message's last parcel has up to twice as many as its others
constexpr u32 kLongestParcel = 16;
constexpr u32 kParcels = 4;         // that a message is cut into, unless they would be shorter, or too long
constexpr int kCarriedBlocks = 16;  // of a kernel for one peer, at most
// Between kernel and proxy shorter messages pass without slots, as words of which each says by itself that it is there.
constexpr u64 kInlineBytes = kCarriedSlotBytes < 248 ? kCarriedSlotBytes : 248;
constexpr int kInlineWords = 1 + static_cast<int>((kInlineBytes + 3) / 4);
constexpr int kWanted = 256;  // messages that a rank can say it wants; a kernel has fewer
// As above; and the pieces of a parcel wait for each other, of whatever memory the piece is that waits for its slot.
static_assert(kCarriedBlocks + 2 * static_cast<int>(kLongestParcel) < kStagedSlots);
static_assert(kStagedSlots <= kCarriedSlots);
static_assert(kMessages <= kWanted);

/// Of a slot; written by whoever fills it. Of the messages that a rank wants: their numbers from 1.
struct SlotNews {
  u64 piece;  // that lies in the slot, counted from 1; written last
  u64 bytes;  // of the whole message
};

/// What the peers write into a rank's memory.
struct MessageFlags {
  SlotNews arrived[kMostRanks][kMessageSlots];
  u64 emptied[kMostRanks][kMessageSlots];  // the last piece, counted from 1, that the peer has taken out of that slot
};

/// The same of a channel between hosts in the host's memory, written by kernels and proxies.
struct CarriedFlags {
  SlotNews arrived[kCarriedSlots];
  u64 emptied[kCarriedSlots];
  SlotNews wanted[kWanted];  // of a channel to here
  // Of an inline message, by its piece: number of the piece, from 1, << 32 | 32 bits: first its bytes, then 4 of them.
  u64 inlined[kCarriedSlots][kInlineWords];
};
/// How many words a message takes so.
constexpr u32 inline_words(u64 bytes) { return static_cast<u32>(1 + (bytes + 3) / 4); }
/// Is it there, of the piece of that number?
/// What stands above the content of each word of an inline piece: never 0, as memory is that nobody has written, and
/// the same in one place only behind 2^40 pieces.
constexpr u64 inline_stamp(u64 number) { return (number % 0xffffffff + 1) << 32; }
constexpr bool is_inlined(u64 word, u64 number) { return word >> 32 == inline_stamp(number) >> 32; }

/// A rank's own state of a channel: what has been through so far.
struct ChannelState {
  u64 pieces, messages;
  u64 room;   // between hosts: the place of each piece before this one is empty, of a message in the host's memory
  u32 ended;  // blocks of the kernel that is at work on it
  u32 unused;
};
struct MessageControl {
  ChannelState to[kMostRanks], from[kMostRanks];
};

/// A channel, as a rank's kernels reach it: addresses in their process.
struct ChannelEnd {
  u64 slots[2];  // where pieces lie; [1]: those of messages in the host's memory
  u64 news;      // SlotNews of each slot
  u64 emptied;   // u64 of each slot
  u64 inlined;   // words of each slot, between hosts
  u64 state;     // ChannelState
  u64 slot_bytes;
  u64 least_on_gpu;  // bytes of a message: shorter ones lie in the host's memory
  u32 depth[2];      // slots in either memory; those of a channel are counted as depth[0]
};

/// Both channels between a rank and another one, in the rank's memory.
struct MessageEnds {
  ChannelEnd to, from;
  u64 wanted;   // CarriedFlags::wanted; 0: the peer is on this host
  u64 carried;  // 1: it is on another one
};

struct MessageArguments {
  u64 at, bytes;
  u32 pieces;  // an empty message is one, too
  u32 piece_bytes;
};

/// Messages with one peer, in their order: first those to it, then those from it.
struct MessagePeer {
  u32 rank;                    // as errors call it
  u32 first, sends, receives;  // of Messages::message
  u32 blocks, end_block;       // that carry them: the last ones before that
  u64 ends;                    // MessageEnds
};

/// All messages of a kernel move at once, but for those of a channel, which come one after the other.
struct Messages {
  u32 rank, peers;
  u64 timeout_ns;
  u64 control;  // Control
  u64 fault;    // FaultRecord
  MessagePeer peer[kMessagePeers];
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

/// The same between hosts: all pieces but the last fill their slots, so that those of a parcel lie together.
constexpr MessageArguments carried_message(u64 at, u64 bytes) {
  const u64 pieces = bytes == 0 ? 1 : (bytes - 1) / kCarriedSlotBytes + 1;
  return {at, bytes, static_cast<u32>(pieces), static_cast<u32>(kCarriedSlotBytes)};
}

/// Bytes of a channel's slots between hosts: a parcel that begins in the last ones goes on behind them, and whoever
/// comes to the first ones next begins behind what it has.
constexpr u64 carried_bytes(u32 depth) { return (depth + 2 * u64{kLongestParcel}) * kCarriedSlotBytes; }

/// A parcel of a message of so many pieces.
struct ParcelOfPieces {
  u32 first, pieces;
};
/// The one that holds the k-th.
constexpr ParcelOfPieces parcel_with(u32 k, u32 pieces) {
  const u32 wanted = pieces / kParcels;
  const u32 each = wanted < kShortestParcel ? kShortestParcel : wanted < kLongestParcel ? wanted : kLongestParcel;
  const u32 parcels = pieces < each ? 1 : pieces / each, own = k / each, which = own < parcels ? own : parcels - 1;
  return {which * each, which + 1 == parcels ? pieces - which * each : each};
}

}  // namespace lanecast::gpu
