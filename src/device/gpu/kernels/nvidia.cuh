// SPDX-License-Identifier: Apache-2.0
// The primitives on NVIDIA's GPUs, by PTX. `.sys`: among all devices and the host; `.gpu`: on this device.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kWarp = 32;

/// Whether threads below this one and those from it on may wait for each other: here any two may.
constexpr bool may_part(int /*thread*/) { return true; }

/// Second argument of __launch_bounds__: so many blocks of so many threads on each multiprocessor.
constexpr int resident(int /*threads*/, int blocks) { return blocks; }

__device__ inline void release(u64* word, u64 value) {
  asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// An earlier kernel's writes are in the memory that peers read, and acquire() is enough at their end. The fence that
/// release() has takes a microsecond even where nothing is under way.
__device__ inline void post(u64* word, u64 value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// What has been read has come before a thread went through the barrier, since what became of it was written by then.
/// So no fence is needed, which would take a microsecond.
__device__ inline void let_go(u64* word, u64 value) { post(word, value); }

/// With a second fence. Between two H200s calls of many pieces gain by it what those of few lose: all-gathers
/// of 1 GiB took 1,570 to 1,600 us in three runs, 1,680 to 1,705 without it in four; of 1 MiB, from a graph, 11.3
/// and 10.5. Why is not known; a first fence added before it did not do the same.
__device__ inline void release_in_flow(u64* word, u64 value) {
  asm volatile("fence.acq_rel.sys;\n\tst.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ inline u64 peek(const u64* word) {
  u64 value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline u32 peek(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline u64 acquire(const u64* word) {
  u64 value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void release(u32* word, u32 value) {
  asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ inline u32 acquire(const u32* word) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline u32 look(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void prepare_barriers() {}  // they are the machine's; 0 is __syncthreads'

__device__ inline void sync(int name, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ inline void arrive(int name, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

__device__ inline void sync_block() { __syncthreads(); }  // fences are cumulative

__device__ inline void tell(u32* word, u32 value) {
  __threadfence_block();
  atomicExch(word, value);
}

__device__ inline u32 told(u32* word) {
  const u32 value = atomicAdd(word, 0u);
  __threadfence_block();
  return value;
}

__device__ inline void pass_on(u64* word, u64 value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ inline void nap(u32 ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
__device__ inline void fail_launch() { __trap(); }

__device__ inline u64 now_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ inline float float_of_half(u16 code) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
  return value;
}

__device__ inline u16 half_of_float(float value) {
  u16 code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
}

/// Two of 16 bits in a word, to nearest, ties to even; a NaN becomes 0x7fff.
__device__ inline u32 halves_of_floats(float low, float high) {
  u32 codes;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
  return codes;
}
__device__ inline u32 bfloats_of_floats(float low, float high) {
  u32 codes;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
  return codes;
}

/// With this code for 0x7fff: all others are less as signed numbers.
__device__ inline u32 nan_of_pair(u32 codes, u32 nan) { return __vmins2(codes, nan << 16 | nan); }

}  // namespace lanecast::gpu
