// SPDX-License-Identifier: Apache-2.0
// Kernels of one block that order copy engines and reducers among ranks: those move the data and never wait.
#pragma once

#include "device/gpu/kernels/waiting.cuh"

namespace lanecast::gpu {

__device__ inline WaitContext waiter_of(const GroupArguments& g) {
  return {g.rank, g.signature, g.timeout_ns, reinterpret_cast<Control*>(g.control),
          reinterpret_cast<FaultRecord*>(g.fault)};
}
__device__ inline Flags* flags_of(const GroupArguments& g, u32 rank) { return reinterpret_cast<Flags*>(g.flags[rank]); }

/// Until the peer has counted so far there; false where it does not, or has made another call, as ranks have whose
/// signatures differ.
__device__ inline bool wait_for_count(const WaitContext& waiter, const u64* word, u32 peer, u64 count) {
  FaultRecord at{};
  at.peer = peer;
  at.call = static_cast<u32>(count);
  at.place = static_cast<u32>(WaitKind::barrier);
  bool differs = false;
  const bool came = wait_for(waiter, word, at, [&](u64 value) {
    at.found = value & 0xffff;
    differs = value >> 16 == count && at.found != waiter.signature;
    if (differs) report(waiter, at, Fault::mismatch);
    return value >> 16 >= count;
  });
  return came && !differs;
}

/// A thread for each peer.
__device__ inline void barrier(const GroupArguments& g) {
  const WaitContext waiter = waiter_of(g);
  __shared__ u64 count;
  if (threadIdx.x == 0) count = peek(&waiter.control->failed) ? 0 : ++waiter.control->barriers;
  __syncthreads();
  const u32 q = threadIdx.x;
  if (count == 0 || q >= g.ranks || q == g.rank) return;
  release(&flags_of(g, q)->barrier[g.rank], count << 16 | g.signature);
  wait_for_count(waiter, &flags_of(g, g.rank)->barrier[q], q, count);
}

/// Waits until the semaphore is given, and takes it.
__device__ inline void take(const WaitContext& waiter, u32* semaphore, u32 peer) {
  FaultRecord at{};
  at.peer = peer;
  at.place = static_cast<u32>(WaitKind::chunk);
  wait_for(waiter, semaphore, at, [](u32 value) { return value != 0; });
  *semaphore = 0;  // before the slot is handed on, after which the peer gives it again
}

/// A thread for each slot of each peer.
__device__ inline void hand_over(const Handover& h) {
  const WaitContext waiter = waiter_of(h.group);
  if (peek(&waiter.control->failed)) return;
  const u32 peer = threadIdx.x / kDepth, slot = threadIdx.x % kDepth;
  const u64 bit = u64{1} << threadIdx.x;
  Flags* const own = flags_of(h.group, h.group.rank);
  if (h.empties & bit) release(&flags_of(h.group, peer)->free[h.group.rank][slot], 1u);
  if (h.fills & bit) release(&flags_of(h.group, peer)->full[h.group.rank][slot], 1u);
  if (h.needs_full & bit) take(waiter, &own->full[peer][slot], peer);
  if (h.needs_free & bit) take(waiter, &own->free[peer][slot], peer);
}

}  // namespace lanecast::gpu
