// SPDX-License-Identifier: Apache-2.0
// Short messages between hosts, as words between kernel and proxy: each says by itself that it is there, so nobody
// waits for a fence, and whoever has seen a word has what it says. See CarriedFlags::inlined.
#pragma once

#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/message_arguments.h"
#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

struct InlineMessage {
  u64* words;
  u64 number;  // of its piece
  u64 at, bytes;
};

/// How many of the message's bytes the k-th word holds, and which is its first.
struct InlineShare {
  __device__ InlineShare(u32 k, u64 bytes) : first(k == 0 ? 0 : u64{4} * (k - 1)) {
    count = k == 0 ? 0 : static_cast<u32>(min(bytes - first, u64{4}));
  }
  u64 first;
  u32 count;
};

__device__ inline void put_inline(Team team, const InlineMessage& message) {
  const u8* const from = reinterpret_cast<const u8*>(message.at);
  for (u32 k = team.index; k < inline_words(message.bytes); k += team.size) {
    const InlineShare share(k, message.bytes);
    u64 content = k == 0 ? message.bytes : 0;
    for (u32 b = 0; b < share.count; ++b) content |= u64{from[share.first + b]} << 8 * b;
    post(message.words + k, inline_stamp(message.number) | content);  // the memory was written by earlier kernels
  }
}

/// Waits for its words. False after a failure, also of a message of another length.
__device__ inline bool take_inline(Team team, const InlineMessage& message, const WaitContext& waiter, FaultRecord at,
                                   Wakefulness how) {
  u8* const to = reinterpret_cast<u8*>(message.at);
  for (u32 k = team.index; k < inline_words(message.bytes); k += team.size) {
    u64 word = 0;
    const auto is_here = [&](u64 value) {
      word = value;
      return is_inlined(value, message.number);
    };
    if (!wait_for(waiter, message.words + k, at, is_here, how)) return false;
    const u64 content = word & 0xffffffff;
    if (k == 0 && content != message.bytes) {
      at.found_bytes = content;
      report(waiter, at, Fault::mismatch);
      return false;
    }
    const InlineShare share(k, message.bytes);
    for (u32 b = 0; b < share.count; ++b) to[share.first + b] = static_cast<u8>(content >> 8 * b);
  }
  return true;
}

}  // namespace lanecast::gpu
