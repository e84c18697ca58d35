// SPDX-License-Identifier: Apache-2.0
// An all-reduce among ranks that see each other's memory, as one kernel in two shots: each rank gets the others' pieces
// of its share of the vector, and what it has reduced it writes at once into its output and into the others' slots,
// from which they fetch it. So each byte is reduced once, and no piece waits until all are reduced.
//
// A reduce is the same with results for its root alone, which has no share: its link takes the vector once, and not
// once from each of the others. All words are said as if all fetched, so what holds of slots holds for it.
//
// Of a round r, among any two ranks p and q (words in the memory of the one that waits for them):
//   p sends its piece of q's share      arrived[p] at q     q reduces it, and writes the result to p's slot
//   q has reduced                       emptied[q] at p     p may send round r + kSlots, and fetches the result
//   p has fetched                       fetched[p] at q     q may write the result of round r + kSlots
// A result comes after its rank's piece was sent, so in-place nothing is overwritten that has yet to be sent.
//
// It counts for two calls, since pieces and results have areas of slots of their own. Results come only to ranks that
// have sent pieces of this call, and so have ended the one before; and who ends this call has had all results, so all
// its pieces were reduced: both areas are free for whatever comes behind.
#pragma once

#include "device/gpu/kernels/pieces.cuh"

namespace lanecast::gpu {

constexpr int kTwoShotThreads = two_shot_threads(kWarp);
static_assert(may_part(kTwoShotSenders) && may_part(kTwoShotReducers) && may_part(kMovers));

/// A block's part of it, by so many threads of each kind, or as BlockPart has it.
template <int kSenders, int kReducers, int kTakers>
class BlockTwoShot : public BlockPieces {
 public:
  using BlockPieces::BlockPieces;

  __device__ void send() {
    const Team team{threadIdx.x, kSenders};
    move(kSending, rounds(), [&](u32 round) {
      send_pieces(round, [&](u64 to, u64 from, u64 bytes) { copy_bytes(team, to, from, bytes); });
    });
  }

  __device__ void signal_sent() {
    const u32 q = threadIdx.x % kWarp;
    signal(
        kSending, rounds(),
        [&](u32 round) {
          return round < kSlots || !shares(q, q, round) || await(&own()->emptied[q][blockIdx.x], of(q), round - kSlots);
        },
        [&](u32 round) {
          if (shares(q, q, round)) tell(kSending, &flags(q)->arrived[x_.rank][blockIdx.x], q, round);
        });
  }

  template <class Format>
  __device__ void reduce() {
    const Team team{threadIdx.x - kSenders, kReducers};
    move(kReducing, rounds(), [&](u32 round) {
      ReductionArguments r;
      r.bytes = slice(x_.recv_bytes[x_.rank], round);
      if (r.bytes == 0) return;
      r.op = x_.op;
      r.divisor = x_.divisor;
      r.overrange = x_.overrange;
      r.sources = x_.ranks;
      // In the order of the ranks, so that all get the same bits wherever their shares begin.
#pragma unroll 1
      for (u32 q = 0; q < x_.ranks; ++q)
        r.source[q] = q == x_.rank ? x_.source[q] + offset(round) : slot(x_.rank, q, round);
      r.targets = 0;
#pragma unroll 1
      for (u32 k = 0; k < x_.ranks; ++k) {
        const u32 q = peer(k);
        if (!gets_result(q)) continue;
        r.target[r.targets++] = k == 0 ? x_.target[q] + offset(round) : slot(q, x_.rank, round, kResults);
      }
      reduce_bytes<Format>(team, r);
    });
  }

  __device__ void signal_reduced() {
    const u32 q = threadIdx.x % kWarp;
    signal(
        kReducing, rounds(),
        [&](u32 round) {
          if (!shares(q, x_.rank, round)) return true;
          return await(&own()->arrived[q][blockIdx.x], of(q), round) &&
                 (round < kSlots || await(&own()->fetched[q][blockIdx.x], of(q), round - kSlots));
        },
        [&](u32 round) {
          if (shares(q, x_.rank, round)) tell(kReducing, &flags(q)->emptied[x_.rank][blockIdx.x], q, round);
        });
  }

  __device__ void fetch() { fetch_if(gets_result(x_.rank)); }

  __device__ void signal_fetched() {
    const u32 q = threadIdx.x % kWarp;
    signal(
        kFetching, rounds(),
        [&](u32 round) { return !shares(q, q, round) || await(&own()->emptied[q][blockIdx.x], of(q), round); },
        [&](u32 round) {  // of the last rounds nobody asks
          if (shares(q, q, round + kSlots)) tell(kFetching, &flags(q)->fetched[x_.rank][blockIdx.x], q, round);
        });
  }

 protected:
  static constexpr BlockPart kSending{1, kSenders}, kReducing{5, kReducers}, kFetching{9, kTakers, /*pump=*/1};
  static constexpr u32 kResults = 1;

  __device__ u32 rounds() const { return x_.recv_rounds; }  // of the longest share: a rank of a broadcast sends nothing

  __device__ bool gets_result(u32 q) const { return x_.root == kNoRoot || x_.root == q; }

  __device__ void fetch_if(bool fetches) {
    const Team team{threadIdx.x - kSenders - kReducers, kTakers};
    move(kFetching, rounds(), [&](u32 round) {
      if (fetches) fetch_results(round, [&](u64 to, u64 from, u64 bytes) { copy_bytes(team, to, from, bytes); });
    });
  }

  /// The others' results of a round, and their places: copy(to, from, bytes).
  template <class Copy>
  __device__ void fetch_results(u32 round, Copy copy) const {
    each_piece(x_.recv_bytes, round,
               [&](u32 q, u64 bytes) { copy(x_.target[q] + offset(round), slot(x_.rank, q, round, kResults), bytes); });
  }

 private:
  __device__ Flags* own() const { return flags(x_.rank); }
  __device__ MessageKey of(u32 q) const { return message(q, 0); }
  __device__ void tell(BlockPart part, u64* flag, u32 q, u32 round) const { say(part, flag, of(q), round, rounds()); }
  /// Is q a peer, and has the share of `owner` a piece of this round?
  __device__ bool shares(u32 q, u32 owner, u32 round) const { return is_peer(q) && has(x_.recv_bytes[owner], round); }
};

using ThreadsTwoShot = BlockTwoShot<kTwoShotSenders, kTwoShotReducers, kMovers - kTwoShotSenders - kTwoShotReducers>;

/// Block: ThreadsTwoShot or one of its kind. reduce(block): by the threads for it.
template <class Block, class Reduce>
__device__ inline void in_two_shots(const Exchange& x, Reduce reduce) {
  const Begun begun = begin(x, kAreas);
  if (begun.idle) return;
  Block block(x, begun);
  if (threadIdx.x < kTwoShotSenders)
    block.send();
  else if (threadIdx.x < kTwoShotSenders + kTwoShotReducers)
    reduce(block);
  else if (threadIdx.x < kMovers)
    block.fetch();
  else if (threadIdx.x < kMovers + kWarp)
    block.signal_sent();
  else if (threadIdx.x < kMovers + 2 * kWarp)
    block.signal_reduced();
  else
    block.signal_fetched();
}

}  // namespace lanecast::gpu
