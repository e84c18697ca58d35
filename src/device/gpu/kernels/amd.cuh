// SPDX-License-Identifier: Apache-2.0
// The primitives on AMD's GPUs, those with warps of 64 lanes for computing (CDNA 2 and later): clang's atomics and
// fences, whose scopes "" (the system), "agent" (this device) and "workgroup" (a block) are those of LLVM's memory
// model for AMDGPU. Compiled and linked, but never yet run.
//
// Memory that other devices write while a kernel runs must not stay in this device's L2 cache: the host has to take it
// as fine-grained or uncached memory.
#pragma once

#ifndef __HIPCC_RTC__  // which knows these words by itself
#include <hip/hip_runtime.h>
#endif

#include "device/gpu/kernels/arguments.h"

#ifndef __grid_constant__
#define __grid_constant__  // arguments are read where the host has put them, anyway
#endif

namespace lanecast::gpu {

#ifdef __HIP_DEVICE_COMPILE__
#if !(defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__))
#error \
    "of AMD's GPUs only gfx90a, gfx940 to gfx942 and gfx950 are known: how many lanes a warp has, how fast its clock is"
#endif
#endif

constexpr int kWarp = 64;

/// Whether threads below this one and those from it on may wait for each other: not those of one warp, whose lanes are
/// all where one of them waits.
constexpr bool may_part(int thread) { return thread % kWarp == 0; }

/// Second argument of __launch_bounds__: here not blocks but their warps on each of a multiprocessor's four units.
constexpr int resident(int threads, int blocks) { return (threads * blocks / kWarp + 3) / 4; }

/// Writes back what the L2 cache holds of the host's and other devices' memory, and waits for all of this warp's
/// accesses. Those of the block's other warps have ended before the barrier; see settle().
__device__ inline void release(u64* word, u64 value) {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "");
  __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline void release(u32* word, u32 value) {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "");
  __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline void release_in_flow(u64* word, u64 value) { release(word, value); }

/// Who writes there next may be another device, and a barrier waits for this warp's reads only where they are used.
__device__ inline void let_go(u64* word, u64 value) { release(word, value); }

/// Whether the end of a kernel writes back what its L2 cache holds of other devices' memory is not known here.
__device__ inline void post(u64* word, u64 value) { release(word, value); }

/// Those who wait leave the unit to its other warps for 64 cycles, some 40 ns.
__device__ inline u64 peek(const u64* word) {
  __builtin_amdgcn_s_sleep(1);
  return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline u32 peek(const u32* word) {
  __builtin_amdgcn_s_sleep(1);
  return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

/// The multiprocessor's L1 cache is emptied, which all warps of the block share.
__device__ inline u64 acquire(const u64* word) {
  return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline u32 acquire(const u32* word) {
  return __hip_atomic_load(word, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline u32 look(const u32* word) {
  return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/// Before a barrier: this warp's accesses have reached the L2 cache. A fence for the block alone would only keep their
/// order in its multiprocessor, and the machine code of another warp's release() waits for that warp's own.
__device__ inline void settle() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }

__device__ inline void sync_block() {
  settle();
  __syncthreads();
}

// Barriers by name are made of counters, since these machines have but one for a whole block: threads that have come,
// from the kernel's start on.
constexpr int kBarriers = 16;

__device__ inline u32* come_to(int name) {
  __shared__ u32 come[kBarriers];
  return &come[name];
}

__device__ inline void prepare_barriers() {
  if (threadIdx.x < kBarriers) *come_to(static_cast<int>(threadIdx.x)) = 0;
}

/// How many threads have come there before these of a warp, which come together.
__device__ inline u32 come(int name) {
  settle();
  const u64 lanes = __builtin_amdgcn_read_exec();
  const u32 lanes_before =
      __builtin_amdgcn_mbcnt_hi(static_cast<u32>(lanes >> 32), __builtin_amdgcn_mbcnt_lo(static_cast<u32>(lanes), 0));
  u32 before = 0;
  if (lanes_before == 0)
    before = __hip_atomic_fetch_add(come_to(name), static_cast<u32>(__builtin_popcountll(lanes)), __ATOMIC_RELAXED,
                                    __HIP_MEMORY_SCOPE_WORKGROUP);
  return __builtin_amdgcn_readfirstlane(before);
}

/// The count must not wrap: it lasts for five million rounds of a kernel, which are terabytes.
__device__ inline void sync(int name, int threads) {
  const u32 all = (come(name) / threads + 1) * threads;
  while (__hip_atomic_load(come_to(name), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP) < all)
    __builtin_amdgcn_s_sleep(1);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ inline void arrive(int name, int /*threads*/) { come(name); }

__device__ inline void fail_launch() { __builtin_trap(); }

__device__ inline void tell(u32* word, u32 value) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

__device__ inline u32 told(u32* word) {
  __builtin_amdgcn_s_sleep(1);
  const u32 value = __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  return value;
}

__device__ inline void pass_on(u64* word, u64 value) {
  __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}

/// 1,024 cycles are some 500 ns.
__device__ inline void nap(u32 ns) {
  for (u32 k = 0; k < ns / 512; ++k) __builtin_amdgcn_s_sleep(16);
}

__device__ inline u64 now_ns() {
  constexpr u64 kNsPerTick = 10;  // 100 MHz: what the runtime calls hipDeviceAttributeWallClockRate
  return __builtin_amdgcn_s_memrealtime() * kNsPerTick;
}

__device__ inline float float_of_half(u16 code) { return static_cast<float>(__builtin_bit_cast(_Float16, code)); }

__device__ inline u16 half_of_float(float value) { return __builtin_bit_cast(u16, static_cast<_Float16>(value)); }

}  // namespace lanecast::gpu
