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

#include "device/gpu/kernels/program_rounds.cuh"

namespace lanecast::gpu {

/// One of a lane's queues.
template <class Format, int kQueue>
class ProgramQueue {
 public:
  static constexpr int kMovers = kQueue == 0 ? kPutters : kTakers;

  /// early: what early_told() has found.
  __device__ ProgramQueue(const ProgramRun& x, const ProgramImage& program, u64 early)
      : x_(x),
        lane_(lane_memory()),
        decoder_(x, program),
        rounds_(decoder_.rounds()),
        waiter_(waiter_of(x)),
        early_(early) {}

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
        next = decoder_.decode(k);
        lane_.said[kQueue][k % kSaid] = said(next);
        lane_.begun[kQueue][k % 2] = k > 0 && may_begin(next);
        // The warp that says has been at the barrier of the round two before, to which this round's threads come next.
        while (k > 1 && told(&lane_.ended[kQueue]) < k - 1) {
        }
      }
      sync(kTurn, kWarp);
      const bool begun = more && lane_.begun[kQueue][k % 2] != 0;
      if (begun) arrive(kBegin + k % 2, kMovers + kWarp);
      if (k > 0) sync(kDone + (k - 1) % 2, kMovers + kWarp);
      if (more && !begun) {
        if (leads) begin(next);
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
      // At once, since the other queue may wait for it. The warp that waits is at the next instruction meanwhile.
      tell(&lane_.ended[kQueue], k + 1);
      const SaidWord& word = lane_.said[kQueue][k % kSaid];
      if (word.at == 0 || !goes_on(lane_.halted)) continue;
      // At the system's scope: the peer, or the proxy and its NIC, sees what was put, or may write over what was taken.
      const bool in_row = lane_.chunks > kFewInRow;
      if (kQueue == 1 && !in_row)
        let_go(reinterpret_cast<u64*>(word.at), word.value);
      else if (kQueue == 0 && in_row && x_.in_flow != 0)
        release_in_flow(reinterpret_cast<u64*>(word.at), word.value);
      else
        release(reinterpret_cast<u64*>(word.at), word.value);
    }
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  static constexpr int kBegin = 1 + 7 * kQueue, kEnd = 3 + 7 * kQueue, kDone = 5 + 7 * kQueue;
  static constexpr int kTurn = 7 + 7 * kQueue;  // the warp's own

  using Rounds = ProgramRounds<kQueue>;
  using Round = typename Rounds::Round;

  __device__ const RingEnd& ring(const Round& r) const { return lane_.ring[kQueue][r.what->peer]; }

  __device__ FaultRecord where(const Round& r) const {
    FaultRecord at{};
    at.peer = r.what->peer;
    at.place = static_cast<u32>(WaitKind::program);
    at.call = r.chunk;
    at.round = r.what->step;
    return at;
  }

  // What an instruction waits for. Of this lane's other queue:

  __device__ u32 needed(const Round& r) const {
    const u32 others = kQueue == 0 ? x_.takes : x_.puts;
    u32 rounds = r.what->needs == 0 ? 0 : (r.tick - r.what->needs_back) * others + r.what->needs;
    if (r.what->writes_scratch && r.chunk >= x_.generations)
      rounds = max(rounds, (r.chunk - x_.generations + Rounds::delays(x_) + 1) * others);
    return rounds;
  }
  __device__ bool has_ended(u32 rounds) const {
    return rounds == 0 || static_cast<int>(told(&lane_.ended[1 - kQueue]) - rounds) >= 0;
  }

  // Of the peer, or of the proxy: that there is room, or what is to be taken. A channel's first lane asks the host's
  // memory, also where it has no share itself, and passes on what it has heard: polls by many lanes held up the copies
  // of other processes by a factor of ten (two H200s, 64 pollers).

  __device__ static bool waits(const Round& r) { return r.bytes != 0 || r.hears; }
  __device__ u32 number(const Round& r) const {
    return (r.what->carried - 1) * x_.channels + blockIdx.x / (gridDim.x / x_.channels);
  }
  __device__ u64* heard(const Round& r) const { return reinterpret_cast<u64*>(x_.heard) + number(r); }
  /// For the channel's other lanes, where it has any.
  __device__ void hear(const Round& r, u64 value) const {
    if (r.hears && gridDim.x != x_.channels) pass_on(heard(r), value);
  }
  __device__ const u64* word(const Round& r) const {
    if (Rounds::is_carried(r)) return r.hears ? reinterpret_cast<const u64*>(x_.told) + number(r) : heard(r);
    return ring(r).hears;
  }
  __device__ bool lets_begin(const Round& r, u64 value) const {
    if (Rounds::is_carried(r)) {
      const u32 count = static_cast<u32>(value);
      const int since = static_cast<int>(static_cast<u32>(value >> 32) - lane_.epoch);
      if (since != 0) return since > 0;  // a later launch's: the proxy is through with this one, so no share is here
      return kQueue == 0 ? r.chunk < count + decoder_.message(r).slots : r.chunk < count;
    }
    // Of a launch before: a peer that put more then than was taken has put nothing of this one yet.
    if (kQueue == 1 && static_cast<short>(static_cast<u32>(value >> 16) - lane_.launch) < 0) return false;
    const u32 room = kQueue == 0 ? static_cast<u32>(x_.ring_bytes / kRingGrain) : 0;
    return static_cast<int>(static_cast<u32>(value >> 32) + room - r.end) >= 0;
  }
  /// Does the word come from a launch of this number, and of another program or behind other bytes, now or before?
  __device__ bool differs(const Round& r, u64 value) const {
    return kQueue == 1 && !Rounds::is_carried(r) && static_cast<u32>(value >> 16 & 0xffff) == lane_.launch &&
           (value & 0xffff) != ring(r).agreed;
  }

  /// Was it known when the launch began that there is room? Of what is carried, the first message's is asked then.
  __device__ bool is_early(const Round& r) const {
    if (kQueue != 0) return false;
    if (!Rounds::is_carried(r)) return lets_begin(r, lane_.emptied[r.what->peer]);
    if (early_ == 0 || !r.hears || r.what->carried != x_.first_carried) return false;
    if (!lets_begin(r, early_)) return false;
    hear(r, early_);
    return true;
  }

  __device__ bool may_begin(const Round& r) {
    if (!waits(r) || !goes_on(lane_.halted)) return true;
    if (!has_ended(needed(r))) return false;
    if (!Rounds::talks(r)) return true;
    if (is_early(r)) return true;
    const u64 value = kQueue == 1 ? acquire(word(r)) : peek(word(r));  // what was put is read, what has room written
    if (!lets_begin(r, value) || differs(r, value)) return false;
    hear(r, value);
    return true;
  }

  /// Until it may; after a failure there is nothing to wait for.
  __device__ void begin(const Round& r) {
    if (!waits(r)) return;
    const u32 rounds = needed(r);
    while (!has_ended(rounds))
      if (!goes_on(lane_.halted)) return;
    if (!Rounds::talks(r) || !goes_on(lane_.halted) || is_early(r)) return;
    FaultRecord at = where(r);
    bool other = false;
    u64 last = 0;
    const auto lets = [&](u64 value) {
      last = value;
      other = differs(r, value);
      if (!other) return lets_begin(r, value);
      at.found = static_cast<u32>(value & 0xffff);
      report(waiter_, at, Fault::mismatch);
      return true;
    };
    const bool between_hosts = x_.begun != 0;
    const bool came = wait_for(waiter_, word(r), at, lets, between_hosts ? Wakefulness::drowsy : Wakefulness::eager);
    if (!came || other)
      halt(lane_.halted);
    else
      hear(r, last);
  }

  /// What is told to the peer or the proxy when the round is done; nothing where it has no place.
  __device__ SaidWord said(const Round& r) const {
    if (!r.says) return {};
    if (Rounds::is_carried(r)) {
      const u64 which = u64{r.what->carried - 1} * gridDim.x + blockIdx.x;
      return {x_.says + which * sizeof(u64), u64{lane_.epoch} << 32 | (r.chunk + 1)};
    }
    return {reinterpret_cast<u64>(ring(r).says), u64{r.end} << 32 | u64{lane_.launch} << 16 | ring(r).agreed};
  }

  const ProgramRun& x_;
  LaneMemory& lane_;
  Rounds decoder_;
  u32 rounds_;
  WaitContext waiter_;
  u64 early_;
};

/// By the thread that waits for the first put, of a lane that hears: whether there is room for the first message, asked
/// before anything else is done, since the host's memory is two microseconds away.
__device__ inline u64 early_told(const ProgramRun& x) {
  if (threadIdx.x != kPutters + kTakers || x.first_carried == 0) return 0;
  const u32 lanes = gridDim.x / x.channels;
  if (blockIdx.x % lanes != 0) return 0;
  return peek(reinterpret_cast<const u64*>(x.told) + (x.first_carried - 1) * x.channels + blockIdx.x / lanes);
}

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
