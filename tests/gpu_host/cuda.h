// SPDX-License-Identifier: Apache-2.0
// CUDA's words, so that the kernels compile for the CPU as they are.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "block.h"

#define __device__
#define __global__
#define __noinline__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local  // a block's threads share one thread of the host

#define threadIdx gpu_host::thread_index
#define blockIdx gpu_host::block_index
#define blockDim gpu_host::block_dim
#define gridDim gpu_host::grid_dim

inline void __syncthreads() { gpu_host::wait_at_barrier(0, 0); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T atomicAdd(T* word, T value) {
  return std::atomic_ref(*word).fetch_add(value);
}
template <class T>
T atomicCAS(T* word, T expected, T value) {
  std::atomic_ref(*word).compare_exchange_strong(expected, value);
  return expected;
}
template <class T>
T atomicMax(T* word, T value) {
  T before = std::atomic_ref(*word).load();
  while (before < value && !std::atomic_ref(*word).compare_exchange_weak(before, value)) {
  }
  return before;
}

template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
