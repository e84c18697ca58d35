// SPDX-License-Identifier: Apache-2.0
// An all-reduce in two shots whose bytes go by the copy engines of multiprocessors: few of those carry what the link
// takes, and leave the others to whatever else computes. Same pieces, slots and words as by threads, so a rank may take
// this kernel and its peer the other.
#pragma once

#include "device/gpu/kernels/two_shot.cuh"

#ifdef LANECAST_BULK

namespace lanecast::gpu {

/// A block's part: each of these by a warp, of which one thread works.
class PumpedTwoShot : public BlockTwoShot<BlockPart::kPump, BlockPart::kAdders, BlockPart::kPump> {
 public:
  using BlockTwoShot::BlockTwoShot;

  __device__ void pump_pieces() const {
    pump(kSending, x_.pace_ps, [&](u32 round, Pump& pump) {
      send_pieces(round, [&](u64 to, u64 from, u64 bytes) { pump.copy(to, from, bytes); });
    });
  }

  /// The others' pieces of this rank's share, and what it brings itself, to where they are added.
  __device__ void load_pieces() const {
    Adding adding(x_.ranks);
    const u32 most = adding.tile_bytes();
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      rounds_of(kReducing).await_begin(round);
      order_bulk();
      const u64 bytes = works(kReducing) ? slice(x_.recv_bytes[x_.rank], round) : 0, begin = offset(round);
      if (bytes == 0) adding.load_nothing(round, TileStage::last_of_round);
#pragma unroll 1
      for (u64 at = 0; at < bytes; at += most) {
        const u32 some = static_cast<u32>(min(bytes - at, u64{most}));
        adding.load(begin + at, some, round, at + some == bytes ? TileStage::last_of_round : TileStage::tile,
                    [&](u32 q) { return at + (q == x_.rank ? x_.source[q] + begin : slot(x_.rank, q, round)); });
      }
    }
    for (int group = 0; group < kAdderGroups; ++group) adding.load_nothing(0, TileStage::end);
  }

  __device__ void store_sums() const {
    SenderPace pace(x_.pace_ps);
    Adding(x_.ranks).store_all([&](const TileStage& stage, const u8* sum) {
      const u64 behind = stage.at - offset(stage.round);
      store_sum(x_.target[x_.rank] + stage.at, sum, stage.bytes);
#pragma unroll 1
      for (u32 k = 1; k < x_.ranks; ++k) {
        pace.hold(stage.bytes);
        store_sum(slot(peer(k), x_.rank, stage.round, kResults) + behind, sum, stage.bytes);
      }
    });
    pace.end();
  }

  __device__ void pump_results() const {
    pump(kFetching, /*pace_ps=*/0, [&](u32 round, Pump& pump) {
      fetch_results(round, [&](u64 to, u64 from, u64 bytes) { pump.copy(to, from, bytes); });
    });
  }

 private:
  /// list(round, pump) has it copy. pace_ps: of Exchange.
  template <class List>
  __device__ void pump(BlockPart part, u32 pace_ps, List list) const {
    Pump pump(part.pump, pace_ps);
#pragma unroll 1
    for (u32 round = 0; round < rounds(); ++round) {
      if (!rounds_of(part).has_begun(round)) pump.settle(round);  // perhaps it does not before a peer has those
      rounds_of(part).await_begin(round);
      order_bulk();
      if (works(part)) list(round, pump);
      pump.end_round();
    }
    pump.end();
  }

  __device__ static void store_sum(u64 to, const u8* from, u32 bytes) {
    if (bytes >= 16) bulk_store(to, from, bytes / 16 * 16);
    copy_tail(to, reinterpret_cast<u64>(from), bytes);
  }
};

/// By groups of threads that add, four warps that have the copy engine work, and two that signal for each part.
template <class Format>
__device__ inline void pumped_two_shot(const Exchange& x) {
  constexpr u32 kAllAdders = kAdders * kAdderGroups;
  static_assert(kAllAdders / kWarp % 2 == 0);  // by the number of its warp a thread waits or tells
  if (threadIdx.x == 0) {
    prepare_pumps();
    prepare_adders();
    order_marks();
  }
  const Begun begun = begin(x, kAreas);
  if (begun.idle) return;
  PumpedTwoShot block(x, begun);
  if (threadIdx.x < kAllAdders) return Adding(x.ranks).add_all<Format>({x.divisor, x.overrange});
  const u32 warp = (threadIdx.x - kAllAdders) / kWarp;
  if (warp < 4 && threadIdx.x % kWarp != 0) return;
  switch (warp) {
    case 0:
      return block.pump_pieces();
    case 1:
      return block.load_pieces();
    case 2:
      return block.store_sums();
    case 3:
      return block.pump_results();
    case 4:
    case 5:
      return block.signal_sent();
    case 6:
    case 7:
      return block.signal_reduced();
    default:
      return block.signal_fetched();
  }
}

}  // namespace lanecast::gpu

#endif
