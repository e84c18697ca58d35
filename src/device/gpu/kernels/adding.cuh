// SPDX-License-Identifier: Apache-2.0
// Reductions in shared memory: one thread has the copy engine bring tiles of all ranks to a stage, a group of threads
// reduces them there, and another thread has the result taken to where it belongs. Stages follow each other in a ring.
#pragma once

#include "device/gpu/kernels/pump.cuh"
#include "device/gpu/kernels/tiles.cuh"

#ifdef LANECAST_BULK

namespace lanecast::gpu {

struct TileStage {
  u64 loaded, reduced, free;  // marks
  u64 at;                     // of what is reduced: bytes behind its beginning
  u32 bytes, round;
  enum Role : u32 { tile, last_of_round, end } kind;
};

struct AdderMemory {
  Rounds rounds;
  TileStage stages[kStages];
};

__device__ inline AdderMemory& adder_memory() {
  __shared__ AdderMemory memory;
  return memory;
}

/// By one thread of a block, before order_marks().
__device__ inline void prepare_adders() {
  AdderMemory& memory = adder_memory();
  memory.rounds.prepare();
#pragma unroll 1
  for (TileStage& stage : memory.stages) {
    prepare_mark(&stage.loaded, 1);
    prepare_mark(&stage.reduced, kAdders);
    prepare_mark(&stage.free, 1);
  }
}

/// The ring, as each of those who work at it sees it.
class Adding {
 public:
  __device__ explicit Adding(u32 ranks)
      : memory_(adder_memory()),
        room_(shared_room() + kPumps * kPumpBytes),
        ranks_(ranks),
        tile_bytes_(min(kTile, kStageBytes / ranks / 128 * 128)) {}

  /// Of one rank, at a stage.
  __device__ u32 tile_bytes() const { return tile_bytes_; }

  // By the loader.

  /// source(q): where rank q's bytes lie, of places that 16 divides.
  template <class Source>
  __device__ void load(u64 at, u32 bytes, u32 round, TileStage::Role kind, Source source) {
    TileStage& stage = next_free();
    stage.at = at;
    stage.bytes = bytes;
    stage.round = round;
    stage.kind = kind;
    const u32 whole = bytes / 16 * 16;
#pragma unroll 1
    for (u32 q = 0; q < ranks_; ++q) copy_tail(reinterpret_cast<u64>(tile(q)), source(q), bytes);
    come_with_loads(&stage.loaded, whole * ranks_);
#pragma unroll 1
    for (u32 q = 0; q < ranks_ && whole != 0; ++q) bulk_load(tile(q), source(q), whole, &stage.loaded);
    ++stage_;
  }

  __device__ void load_nothing(u32 round, TileStage::Role kind) {
    load(0, 0, round, kind, [](u32) { return u64{0}; });
  }

  // By the groups of adders.

  template <class Format>
  __device__ void add_all(const Averaging& how) {
    const Team team{threadIdx.x % kAdders, kAdders};
    for (stage_ = threadIdx.x / kAdders;; stage_ += kAdderGroups) {
      TileStage& stage = current();
      await_mark(&stage.loaded, parity());
      const bool ends = stage.kind == TileStage::end;
      add_tiles<Format>(team, tile(0), tile_bytes_, ranks_, stage.bytes, how);
      order_bulk_shared();
      come_to(&stage.reduced);  // each by itself, since racecheck does not see that a warp's threads come together
      if (ends) return;
    }
  }

  // By the one who stores: store(stage, result).

  template <class Store>
  __device__ void store_all(Store store) {
    u32 written = 0, ends = 0;
    bool ended_round = false;
    while (ends < kAdderGroups) {
      TileStage& stage = current();
      if (ended_round && !comes_soon(stage)) {  // perhaps not before a peer has heard of that round
        await_groups<0>();
        while (written < stage_) give_back(written++);
      }
      await_mark(&stage.reduced, parity());
      ended_round = stage.kind == TileStage::last_of_round;
      ends += stage.kind == TileStage::end;
      if (stage.bytes != 0) store(stage, tile(0));
      end_group();
      ++stage_;
      await_groups<kStagesUnderWay>();
      while (written + kStagesUnderWay < stage_) give_back(written++);
    }
    await_groups<0>();
    while (written < stage_) give_back(written++);
  }

 private:
  __device__ u8* tile(u32 rank) const { return room_ + stage_ % kStages * kStageBytes + rank * tile_bytes_; }
  __device__ TileStage& current() const { return memory_.stages[stage_ % kStages]; }
  __device__ u32 parity() const { return stage_ / kStages % 2; }

  __device__ bool comes_soon(TileStage& stage) const {
    constexpr int kPatience = 64;  // looks
#pragma unroll 1
    for (int look = 0; look < kPatience; ++look)
      if (has_passed(&stage.reduced, parity())) return true;
    return false;
  }

  __device__ TileStage& next_free() const {
    TileStage& stage = current();
    if (stage_ >= kStages) await_mark(&stage.free, parity() ^ 1);
    return stage;
  }

  __device__ void give_back(u32 number) {
    TileStage& stage = memory_.stages[number % kStages];
    if (stage.kind == TileStage::last_of_round) {
      order_bulk_shared();  // behind a tail
      memory_.rounds.end(stage.round);
    }
    come_to(&stage.free);
  }

  AdderMemory& memory_;
  u8* room_;
  u32 ranks_, tile_bytes_;
  u32 stage_ = 0;  // counted on
};

}  // namespace lanecast::gpu

#endif
