// SPDX-License-Identifier: Apache-2.0
// What the kernels need of the machine: order among ranks' memory accesses, and a clock.
#pragma once

#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

/// Everything that this block has written before its last barrier is seen by whoever acquires the value, on any device.
__device__ inline void release(u64* word, u64 value) {
  asm volatile("fence.acq_rel.sys;\n\tst.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// The same with a second fence. Between two H200s calls of many pieces gain by it what those of few lose: all-gathers
/// of 1 GiB took 1,570 to 1,600 us in three runs, 1,680 to 1,705 without it in four; of 1 MiB, from a graph, 11.3
/// and 10.5. Why is not known; a first fence added before it did not do the same.
__device__ inline void release_in_flow(u64* word, u64 value) {
  asm volatile("fence.acq_rel.sys;\n\tst.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

/// Without order, for those who wait: an acquire throws away what the cache holds, each time.
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

/// A barrier of the `threads` threads that name it; 0 is __syncthreads'. A warp may come to it in parts.
__device__ inline void sync(int name, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// The same without waiting for the others.
__device__ inline void arrive(int name, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/// To the threads of this block that poll the word by told(): what this thread has done before comes before it.
__device__ inline void tell(u32* word, u32 value) {
  __threadfence_block();
  atomicExch(word, value);
}

__device__ inline u32 told(u32* word) {
  const u32 value = atomicAdd(word, 0u);
  __threadfence_block();
  return value;
}

/// Of a word that only this device changes.
__device__ inline u32 look(const u32* word) {
  u32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline u64 now_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

}  // namespace lanecast::gpu
