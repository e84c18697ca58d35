// SPDX-License-Identifier: Apache-2.0
// What the kernels need of the machine: order among ranks' memory accesses, barriers, a clock, and conversions. Here
// stands what each of them promises; how NVIDIA's GPUs and AMD's keep it stands in a file of its own for either.
#pragma once

#include "device/gpu/kernels/arguments.h"

#ifdef __HIP__
#include "device/gpu/kernels/amd.cuh"
#else
#include "device/gpu/kernels/nvidia.cuh"
#endif

namespace lanecast::gpu {

// Between devices: words that one rank writes and another reads, in any memory that both reach.

/// Everything that this block has written before its last sync() or sync_block() is seen by whoever acquires the
/// value, on any device.
__device__ void release(u64* word, u64 value);
__device__ void release(u32* word, u32 value);

/// The same, for words of which many are under way.
__device__ void release_in_flow(u64* word, u64 value);

/// Without order but behind all earlier kernels of the stream: what those have written is seen by whoever acquires it.
__device__ void post(u64* word, u64 value);

/// What this block has read before its last sync() or __syncthreads() may be written over by whoever acquires the
/// value; nothing that it has written is published.
__device__ void let_go(u64* word, u64 value);

/// To other blocks of this device: what this thread has acquired before is seen by whoever acquires the value.
__device__ void pass_on(u64* word, u64 value);

/// Without order, for those who wait: an acquire throws away what the cache holds, each time.
__device__ u64 peek(const u64* word);
__device__ u32 peek(const u32* word);

/// What was written before the value was released is seen by this thread, and behind the next barrier by its block.
__device__ u64 acquire(const u64* word);
__device__ u32 acquire(const u32* word);

/// Of a word that only this device changes, or a block's; without order.
__device__ u32 look(const u32* word);

// Within a block.

/// By all of its threads, before sync_block() or __syncthreads() and after that sync() and arrive().
__device__ void prepare_barriers();

/// A barrier of the `threads` threads that name it, from 1 to 15. A warp may come to it in parts, if they need not wait
/// for each other. Each barrier orders what was written and read before it, and behind it.
__device__ void sync(int name, int threads);

/// The same without waiting for the others. Before all have come, none of them may come again.
__device__ void arrive(int name, int threads);

/// __syncthreads(), behind which release() publishes what all threads of the block have written.
__device__ void sync_block();

/// To the threads of this block that poll the word by told(): what this thread has done before comes before it.
__device__ void tell(u32* word, u32 value);
__device__ u32 told(u32* word);

/// The launch ends with an error of the driver's, and so does all that this process has on the device.
__device__ void fail_launch();

/// Nanoseconds, of a clock that all multiprocessors of the device share and that neither stops nor follows their
/// frequency.
__device__ u64 now_ns();

/// Does nothing for about so many nanoseconds.
__device__ void nap(u32 ns);

/// Between fp16's code and fp32; to nearest, ties to even. What becomes of a NaN's payload is not said.
__device__ float float_of_half(u16 code);
__device__ u16 half_of_float(float value);

}  // namespace lanecast::gpu
