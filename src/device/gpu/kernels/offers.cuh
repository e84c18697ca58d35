// SPDX-License-Identifier: Apache-2.0
// How ranks find each other's buffers in windows: each says where its own lie, at the call. One that has a buffer
// elsewhere says nothing, and sends pieces through slots as it always does: its first piece tells the others to do the
// same. So all ranks come to one answer, and a rank without windows pays nothing for those that have some.
#pragma once

#include "device/gpu/kernels/handover.cuh"

namespace lanecast::gpu {

/// Has the peer said where its buffers lie? False where it has sent a piece instead, and where the wait fails.
__device__ inline bool hear_offer(const Direct& d, u32 q, u32 call) {
  const GroupArguments& g = d.group;
  const WaitContext waiter = waiter_of(g);
  Flags* const own = flags_of(g, g.rank);
  const u64* const piece = &own->arrived[q][0];  // every rank sends one to every other, by its first block
  FaultRecord at{};
  at.peer = q;
  at.call = call;
  at.place = static_cast<u32>(WaitKind::piece);
  bool offers = false;
  const bool came = wait_for(waiter, &own->offers[q][blockIdx.x].called, at, [&](u64 called) {
    offers = called >> 16 == u64{call} + 1;
    const u64 arrived = offers ? 0 : peek(piece);
    const bool sends = (arrived & 0xffff) != 0 && static_cast<u32>(arrived >> 32) == call;
    if (!offers && !sends) return false;
    at.found = static_cast<u32>(offers ? called : arrived >> 16) & 0xffff;
    if (at.found != g.signature) report(waiter, at, Fault::mismatch);
    return true;
  });
  return came && offers && at.found == g.signature;
}

/// By all threads of a block. True, with what is to be moved in `work`, if all ranks have offered their buffers: then
/// their memory is ready. Otherwise the call is left to what stands behind this kernel.
__device__ inline bool accept(const Direct& d, ReductionArguments& work) {
  const GroupArguments& g = d.group;
  const Offering& o = d.offering;
  Control* const control = reinterpret_cast<Control*>(g.control);
  const WindowTable* const windows = reinterpret_cast<const WindowTable*>(o.windows);
  __shared__ u32 declined, failed;
  if (threadIdx.x == 0) {
    declined = failed = peek(&control->failed);
    work.bytes = d.work.bytes;
    work.divisor = d.work.divisor;
    work.overrange = d.work.overrange;
    work.op = d.work.op;
    work.sources = o.in ? g.ranks : 1;
    work.source[0] = o.own_in + o.in_at;
    work.targets = o.out ? g.ranks : 1;
    work.target[0] = o.own_out + o.out_at;
  }
  __syncthreads();
  const u32 q = threadIdx.x;
  if (failed == 0 && q < g.ranks) {
    const u32 call = look(&control->call);
    const bool own = q == g.rank;
    const Offer* const theirs = &flags_of(g, g.rank)->offers[q][blockIdx.x];
    if (!own) {
      Offer* const mine = &flags_of(g, q)->offers[g.rank][blockIdx.x];
      mine->in = o.in;
      mine->out = o.out;
      release(&mine->called, (u64{call} + 1) << 16 | g.signature);
    }
    const bool found = own || hear_offer(d, q, call);
    const auto address = [&](u64 in_this_process, const u64* place) {
      if (own) return in_this_process;
      const u64 where = peek(place);
      constexpr u64 kOffset = (u64{1} << kWindowShift) - 1;
      return peek(&windows->at[q][(where >> kWindowShift) - 1]) + (where & kOffset);
    };
    if (!found) {
      declined = 1;
    } else {
      if (o.in) work.source[q] = address(o.own_in, &theirs->in) + o.in_at;
      // Ranks begin with different peers, so that not all write to one of them.
      if (o.out) work.target[(q + g.ranks - g.rank) % g.ranks] = address(o.own_out, &theirs->out) + o.out_at;
    }
  }
  __syncthreads();
  // What a rank copies to the peers may be in its own place already.
  if (threadIdx.x == 0 && !o.in && work.target[0] == work.source[0]) work.target[0] = work.target[--work.targets];
  __syncthreads();
  return declined == 0;
}

/// By all blocks alike, before they leave.
__device__ inline void tell_of_offer(const Direct& d, bool taken) {
  if (threadIdx.x != 0) return;
  reinterpret_cast<Control*>(d.group.control)->taken = taken ? 1 : 0;
  if (blockIdx.x == 0 && taken) reinterpret_cast<WindowTable*>(d.offering.windows)->taken += 1;
}

}  // namespace lanecast::gpu
