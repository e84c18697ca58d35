// SPDX-License-Identifier: Apache-2.0
// Copies by the copy engine of a multiprocessor, for which one thread is enough. Threads that write to the peers keep
// all others of their multiprocessor waiting behind what is on the way there; this one does not.
#pragma once

#include "device/gpu/kernels/rounds.cuh"

#ifdef LANECAST_BULK

namespace lanecast::gpu {

/// What a pump has under way: of its block, by its number.
struct PumpMemory {
  Rounds rounds;
  u64 loaded[kTiles];               // marks
  u64 to[kTiles], also_to[kTiles];  // the second one is 0 where there is none
  u32 bytes[kTiles];
};

__device__ inline PumpMemory& pump_memory(int number) {
  __shared__ PumpMemory pumps[kPumps];
  return pumps[number];
}

/// How many threads of this block send.
__device__ inline u32& senders() {
  __shared__ u32 count;
  return count;
}

/// By one thread of a block, before order_marks().
__device__ inline void prepare_pumps() {
  senders() = 0;
#pragma unroll 1
  for (int number = 0; number < kPumps; ++number) {
    PumpMemory& memory = pump_memory(number);
    memory.rounds.prepare();
#pragma unroll 1
    for (u64& mark : memory.loaded) prepare_mark(&mark, 1);
  }
}

/// Holds its thread back, so that those of a block that send together send no more than the link takes: what waits in
/// front of it holds up whatever else the multiprocessor reads and writes.
class SenderPace {
 public:
  __device__ explicit SenderPace(u32 ps_per_kib) : ps_per_kib_(ps_per_kib), due_ps_(now_ns() * 1000) {}

  __device__ void hold(u32 bytes) {
    if (ps_per_kib_ == 0) return;
    if (!sends_) atomicAdd(&senders(), 1u);
    sends_ = true;
    constexpr u64 kMayCatchUp = 1'000'000, kLongest = 1'000'000'000;  // 1 us, 1 ms
    // Differences, since 64 bits of picoseconds begin anew every 213 days; and none that no pace makes is waited for.
    u64 now = now_ns() * 1000;
    while (due_ps_ - now < kLongest) now = now_ns() * 1000;
    if (now - due_ps_ > kMayCatchUp) due_ps_ = now - kMayCatchUp;
    due_ps_ += u64{bytes} * ps_per_kib_ / 1024 * atomicAdd(&senders(), 0u);
  }

  /// It sends nothing more.
  __device__ void end() {
    if (sends_) atomicAdd(&senders(), ~0u);
  }

 private:
  u32 ps_per_kib_;
  u64 due_ps_;
  bool sends_ = false;
};

/// Bytes that no 16 fill.
__device__ inline void copy_tail(u64 to, u64 from, u32 bytes) {
#pragma unroll 1
  for (u32 k = bytes / 16 * 16; k < bytes; ++k) *reinterpret_cast<u8*>(to + k) = *reinterpret_cast<const u8*>(from + k);
}

/// One thread's. Copies are put together to rounds, which end in their order.
class Pump {
 public:
  __device__ Pump(int number, u32 pace_ps)
      : memory_(pump_memory(number)), room_(shared_room() + number * kPumpBytes), pace_(pace_ps) {}

  /// From and to places that 16 divides.
  __device__ void copy(u64 to, u64 from, u64 bytes, u64 also_to = 0) {
#pragma unroll 1
    for (u64 at = 0; at < bytes; at += kTile) {
      const u32 some = static_cast<u32>(min(bytes - at, u64{kTile}));
      if (some >= 16) load(to + at, from + at, some / 16 * 16, also_to == 0 ? 0 : also_to + at);
      copy_tail(to + at, from + at, some);
      if (also_to != 0) copy_tail(also_to + at, from + at, some);
    }
  }

  __device__ void end_round() {
    if (loaded_ == ended_tiles_) {  // nothing of it is under way
      settle(ended_);
      memory_.rounds.end(rounds_++);
    } else {
      last_ |= 1u << (loaded_ - 1) % 32;
    }
    ended_tiles_ = loaded_;
    ++ended_;
  }

  /// Until all that was asked for is written.
  __device__ void end() {
    settle(ended_);
    pace_.end();
  }

  /// Until so many rounds are written.
  __device__ void settle(u32 rounds) {
    while (rounds_ < rounds) {
      if (stored_ < loaded_)
        store();
      else
        written<0>();
    }
  }

 private:
  __device__ void load(u64 to, u64 from, u32 bytes, u64 also_to) {
    if (loaded_ - stored_ == kTilesAhead) store();
    const u32 tile = loaded_++ % kTiles;
    memory_.to[tile] = to;
    memory_.also_to[tile] = also_to;
    memory_.bytes[tile] = bytes;
    come_with_loads(&memory_.loaded[tile], bytes);
    bulk_load(room_ + tile * kTile, from, bytes, &memory_.loaded[tile]);
  }

  __device__ void store() {
    const u32 tile = stored_ % kTiles, bytes = memory_.bytes[tile];
    await_mark(&memory_.loaded[tile], stored_ / kTiles % 2);
    pace_.hold(bytes);
    bulk_store(memory_.to[tile], room_ + tile * kTile, bytes);
    if (memory_.also_to[tile] != 0) bulk_store(memory_.also_to[tile], room_ + tile * kTile, bytes);
    end_group();
    ++stored_;
    written<kTilesUnderWay - 1>();
  }

  /// All but so many stores are, after some time.
  template <int kUnderWay>
  __device__ void written() {
    await_groups<kUnderWay>();
    for (; written_ + kUnderWay < stored_; ++written_) {
      const u32 bit = 1u << written_ % 32;
      if ((last_ & bit) == 0) continue;
      last_ &= ~bit;
      memory_.rounds.end(rounds_++);
    }
  }

  static_assert(kTiles <= 32);
  PumpMemory& memory_;
  u8* room_;
  SenderPace pace_;
  u32 loaded_ = 0, stored_ = 0, written_ = 0, ended_tiles_ = 0;  // tiles
  u32 last_ = 0;                                                 // of its round, a bit for each tile under way
  u32 ended_ = 0, rounds_ = 0;                                   // that have all their tiles; that are written
};

}  // namespace lanecast::gpu

#endif
