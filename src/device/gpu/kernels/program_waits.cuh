// SPDX-License-Identifier: Apache-2.0
// What the instructions of a queue wait for: the lane's other queue, and the peer or the proxy. Of one thread.
#pragma once

#include "device/gpu/kernels/program_rounds.cuh"

namespace lanecast::gpu {

/// By the thread that waits for the first put, of a lane that hears: whether there is room for the first message, asked
/// before anything else is done, since the host's memory is two microseconds away.
__device__ inline u64 early_told(const ProgramRun& x) {
  if (threadIdx.x != kPutters + kTakers || x.first_carried == 0) return 0;
  const u32 lanes = gridDim.x / x.channels;
  if (blockIdx.x % lanes != 0) return 0;
  return peek(reinterpret_cast<const u64*>(x.told) + (x.first_carried - 1) * x.channels + blockIdx.x / lanes);
}

template <int kQueue>
class ProgramWaits {
 public:
  using Rounds = ProgramRounds<kQueue>;
  using Round = typename Rounds::Round;

  /// early: what early_told() has found.
  __device__ ProgramWaits(const ProgramRun& x, const ProgramImage& program, u64 early)
      : x_(x), lane_(lane_memory()), decoder_(x, program), waiter_(waiter_of(x)), early_(early) {}

  __device__ u32 rounds() const { return decoder_.rounds(); }
  __device__ Round decode(u32 k) { return decoder_.decode(k); }

  __device__ bool may_begin(const Round& r) const {
    if (!waits(r) || !goes_on(lane_.halted)) return true;
    if (!has_ended(r.needs)) return false;
    if (!r.talks) return true;
    if (is_early(r)) return true;
    const u64 value = kQueue == 1 ? acquire(word(r)) : peek(word(r));  // what was put is read, what has room written
    if (!lets_begin(r, value) || differs(r, value)) return false;
    hear(r, value);
    return true;
  }

  /// Until it may; after a failure there is nothing to wait for.
  __device__ void begin(const Round& r) const {
    if (!waits(r)) return;
    while (!has_ended(r.needs))
      if (!goes_on(lane_.halted)) return;
    if (!r.talks || !goes_on(lane_.halted) || is_early(r)) return;
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

  /// Of a put through a ring, now or when the launch began.
  __device__ bool has_room(const Round& r) const { return is_early(r) || lets_begin(r, peek(word(r))); }

  __device__ const RingEnd& ring(const Round& r) const { return lane_.ring[kQueue][r.peer]; }

 private:
  __device__ FaultRecord where(const Round& r) const {
    FaultRecord at{};
    at.peer = r.peer;
    at.place = static_cast<u32>(WaitKind::program);
    at.call = r.chunk;
    at.round = r.step;
    return at;
  }

  // What an instruction waits for. Of this lane's other queue:

  __device__ bool has_ended(u32 rounds) const {
    return rounds == 0 || static_cast<int>(told(&lane_.ended[1 - kQueue]) - rounds) >= 0;
  }

  // Of the peer, or of the proxy: that there is room, or what is to be taken. A channel's first lane asks the host's
  // memory, also where it has no share itself, and passes on what it has heard: polls by many lanes held up the copies
  // of other processes by a factor of ten (two H200s, 64 pollers).

  __device__ static bool waits(const Round& r) { return r.moves || r.hears; }
  __device__ u32 number(const Round& r) const {
    return (r.carried - 1) * x_.channels + blockIdx.x / (gridDim.x / x_.channels);
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
    if (!Rounds::is_carried(r)) return lets_begin(r, lane_.emptied[r.peer]);
    if (early_ == 0 || !r.hears || r.carried != x_.first_carried) return false;
    if (!lets_begin(r, early_)) return false;
    hear(r, early_);
    return true;
  }

  const ProgramRun& x_;
  LaneMemory& lane_;
  Rounds decoder_;
  WaitContext waiter_;
  u64 early_;
};

}  // namespace lanecast::gpu
