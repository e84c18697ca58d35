// SPDX-License-Identifier: Apache-2.0
// The copy engine of a multiprocessor, by PTX's bulk copies: it moves bytes between shared memory and any that this
// device reaches, 16 at least and of places that 16 divides, for a thread that goes on meanwhile. Only on the GPUs
// where it was measured: LANECAST_BULK.
#pragma once

#include "device/gpu/kernels/primitives.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ / 100 == 9
#define LANECAST_BULK

namespace lanecast::gpu {

/// Shared memory that a kernel was launched with.
__device__ inline u8* shared_room() {
  extern __shared__ __align__(128) u8 room[];
  return room;
}

__device__ inline u32 shared_address(const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); }

// A mark is passed when so many threads have come and all loads that it was told of are done; then it begins anew. Who
// comes publishes what it has done before to those who pass.

/// By one thread, before all else; behind all of them order_marks(), and then a barrier.
__device__ inline void prepare_mark(u64* mark, u32 threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(mark)), "r"(threads) : "memory");
}
__device__ inline void order_marks() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void come_to(u64* mark) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(mark)) : "memory");
}

/// By all threads of a warp, which count as one.
__device__ inline void come_to_as_warp(u64* mark) {
  __syncwarp();
  if (threadIdx.x % kWarp == 0) come_to(mark);
}

/// The same as come_to(), with so many bytes of loads that follow.
__device__ inline void come_with_loads(u64* mark, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(mark)), "r"(bytes)
               : "memory");
}

/// The k-th time that it is passed has parity k % 2, and must have been seen before it is passed again.
__device__ inline bool has_passed(u64* mark, u32 parity) {
  u32 passed;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t"
      "}"
      : "=r"(passed)
      : "r"(shared_address(mark)), "r"(parity)
      : "memory");
  return passed != 0;
}

/// Sleeps meanwhile: warps that look again and again keep others from shared memory.
__device__ inline void await_mark(u64* mark, u32 parity) {
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t"
      "@!p bra again;\n\t"
      "}" ::"r"(shared_address(mark)),
      "r"(parity)
      : "memory");
}

__device__ inline void bulk_load(u8* to_shared, u64 from, u32 bytes, u64* mark) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to_shared)),
               "l"(from), "r"(bytes), "r"(shared_address(mark))
               : "memory");
}

/// Reads the shared memory later, too. Stores make groups.
__device__ inline void bulk_store(u64 to, const u8* from_shared, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from_shared)), "r"(bytes)
               : "memory");
}

__device__ inline void end_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// All groups of this thread but the last kUnderWay have been written, and are seen as this thread's own writes are.
template <int kUnderWay>
__device__ inline void await_groups() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kUnderWay) : "memory");
}

// What threads read and write and what the engine does are in no order but by these. Each says which memory it is
// about: one for all of it ends when everything that the multiprocessor has on the way has arrived, 8 to 10 us while it
// sends.

/// Behind what this thread has acquired of the GPUs' memory, before it has the engine read or write there.
__device__ inline void order_bulk() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

/// Behind what this thread has read and written in shared memory, before it comes to a mark behind which somebody has
/// the engine read or write there.
__device__ inline void order_bulk_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace lanecast::gpu

#endif
