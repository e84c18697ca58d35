// SPDX-License-Identifier: Apache-2.0
// Interprets a program: a plan that was proven, bound to a shape. What an instruction means stands in
// program_arguments.h.
//
// Either queue of a lane has threads that move data and two warps beside them. One decodes an instruction and waits for
// what it needs, the threads work, and the other says what is done: that takes a fence, of one to two microseconds, in
// which the first one is at the next instruction. While the threads work it looks whether that may begin, and hands it
// over at once if so. If not, it waits when they have ended: whoever is waited for may be waiting for their word.
//
// All waits point backwards in one order of instructions that all ranks share, so rings of any length that holds the
// longest message do. Source: docs/explanation/decisions/0056-programs.md.
#pragma once

#include "device/gpu/kernels/joined.cuh"
#include "device/gpu/kernels/program_waits.cuh"

namespace lanecast::gpu {

/// One of a lane's queues.
template <class Format, int kQueue>
class ProgramQueue {
 public:
  static constexpr int kMovers = kQueue == 0 ? kPutters : kTakers;

  /// early: what early_told() has found.
  __device__ ProgramQueue(const ProgramRun& x, const ProgramImage& program, u64 early)
      : x_(x), lane_(lane_memory()), waits_(x, program, early), rounds_(waits_.rounds()) {}

  /// By the threads that move data.
  __device__ void work(Team team) {
#pragma unroll 1
    for (u32 k = 0; k < rounds_; ++k) {
      sync(kBegin + k % 2, kMovers + kWarp);  // what one thread has acquired, all may read
      const ProgramRound& round = lane_.round[kQueue][k % 2];
      if (goes_on(lane_.halted)) {
#pragma unroll 1
        for (u32 r = 0; r < round.runs; ++r)
          if (kQueue == 1 && (round.operation == Operation::take_reduce || round.operation == Operation::reduce))
            reduce_bytes<Format>(team, round.run[r]);
          else
            copy_bytes(team, round.run[r].target[0], round.run[r].source[0], round.run[r].bytes);
      }
      arrive(kEnd + k % 2, kMovers + kWarp);
      arrive(kDone + k % 2, kMovers + kWarp);
    }
  }

  /// By the warp beside them, of which one thread does everything. All come to the same barriers together: a machine
  /// counts warps there.
  __device__ void direct() {
    const bool leads = threadIdx.x % kWarp == 0;
    Round next{};
#pragma unroll 1
    for (u32 k = 0; k <= rounds_; ++k) {
      const bool more = k < rounds_;
      if (more && leads) {
        next = waits_.decode(k);
        lane_.said[kQueue][k % kSaid] = said(next);
        if (kQueue == 0 && next.joined && waits_.has_room(next)) offer_room(next.needs, k);
        lane_.begun[kQueue][k % 2] = k > 0 && waits_.may_begin(next);
        if (lane_.begun[kQueue][k % 2]) join(next, k);
        // The warp that says has been at the barrier of the round two before, to which this round's threads come next.
        while (k > 1 && told(&lane_.ended[kQueue]) < k - 1) {
        }
      }
      sync(kTurn, kWarp);
      const bool begun = more && lane_.begun[kQueue][k % 2] != 0;
      if (begun) arrive(kBegin + k % 2, kMovers + kWarp);
      if (k > 0) sync(kDone + (k - 1) % 2, kMovers + kWarp);
      if (more && !begun) {
        if (leads) {
          waits_.begin(next);
          join(next, k);
        }
        arrive(kBegin + k % 2, kMovers + kWarp);
      }
    }
  }

  /// By the second one.
  __device__ void say() {
#pragma unroll 1
    for (u32 k = 0; k < rounds_; ++k) {
      sync(kEnd + k % 2, kMovers + kWarp);  // all threads have read, and written what is published now
      if (threadIdx.x % kWarp != 0) continue;
      // Before this round is said to have ended, for which the joined put waits.
      if (kQueue == 1) publish<0>(word_of_put(k + 1));
      // At once, since the other queue may wait for it. The warp that waits is at the next instruction meanwhile.
      tell(&lane_.ended[kQueue], k + 1);
      publish<kQueue>(lane_.said[kQueue][k % kSaid]);
      if (kQueue == 0) tell(&lane_.puts_said, k + 1);
    }
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  static constexpr int kBegin = 1 + 7 * kQueue, kEnd = 3 + 7 * kQueue, kDone = 5 + 7 * kQueue;
  static constexpr int kTurn = 7 + 7 * kQueue;  // the warp's own

  using Waits = ProgramWaits<kQueue>;
  using Rounds = typename Waits::Rounds;
  using Round = typename Waits::Round;

  /// At the system's scope: the peer, or the proxy and its NIC, sees what was put, or may write over what was taken.
  template <int kOfQueue>
  __device__ void publish(SaidWord word) const {
    if (word.at == 0 || !goes_on(lane_.halted)) return;
    const bool in_row = lane_.chunks > kFewInRow;
    if (kOfQueue == 1 && !in_row)
      let_go(reinterpret_cast<u64*>(word.at), word.value);
    else if (kOfQueue == 0 && in_row && x_.in_flow != 0)
      release_in_flow(reinterpret_cast<u64*>(word.at), word.value);
    else
      release(reinterpret_cast<u64*>(word.at), word.value);
  }

  /// When all that it waits for has come, before the threads begin.
  __device__ void join(const Round& r, u32 k) const {
    if (!r.joined || !goes_on(lane_.halted)) return;
    if (kQueue == 1)
      write_into_ring(k + 1);
    else
      skip_if_written(r.needs, k);
  }

  /// What is told to the peer or the proxy when the round is done; nothing where it has no place.
  __device__ SaidWord said(const Round& r) const {
    if (!r.says) return {};
    if (Rounds::is_carried(r)) {
      const u64 which = u64{r.carried - 1} * gridDim.x + blockIdx.x;
      return {x_.says + which * sizeof(u64), u64{lane_.epoch} << 32 | (r.chunk + 1)};
    }
    return {reinterpret_cast<u64>(waits_.ring(r).says),
            u64{r.end} << 32 | u64{lane_.launch} << 16 | waits_.ring(r).agreed};
  }

  const ProgramRun& x_;
  LaneMemory& lane_;
  Waits waits_;
  u32 rounds_;
};

template <class Format>
__device__ inline void run_program(const ProgramRun& x) {
  const u64 early = early_told(x);
  begin_lane(x);
  if (lane_memory().idle != 0) return;
  const ProgramImage program = image_of(x);
  ProgramQueue<Format, 0> putting(x, program, early);
  ProgramQueue<Format, 1> taking(x, program, 0);
  if (threadIdx.x < kPutters)
    putting.work({threadIdx.x, kPutters});
  else if (threadIdx.x < kPutters + kTakers)
    taking.work({threadIdx.x - kPutters, kTakers});
  else if (threadIdx.x < kPutters + kTakers + kWarp)
    putting.direct();
  else if (threadIdx.x < kPutters + kTakers + 2 * kWarp)
    taking.direct();
  else if (threadIdx.x < kPutters + kTakers + 3 * kWarp)
    putting.say();
  else
    taking.say();
  __syncthreads();
  end_lane(x);
}

}  // namespace lanecast::gpu
