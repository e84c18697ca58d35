// SPDX-License-Identifier: Apache-2.0
// The kernels' view of the machine, on the CPU: it stands before the one with PTX in the compiler's path.
#pragma once

#include <atomic>
#include <type_traits>

#include "block.h"
#include "device/gpu/kernels/arguments.h"

namespace lanecast::gpu {

constexpr int kWarp = 32;
constexpr bool may_part(int) { return true; }

inline void at_word(const void* word) {
  if (gpu_host::at_word) gpu_host::at_word(word);
}

template <class Word>
void release(Word* word, std::type_identity_t<Word> value) {
  at_word(word);
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

template <class Word>
Word acquire(const Word* word) {
  return std::atomic_ref(*const_cast<Word*>(word)).load(std::memory_order_acquire);
}

/// Only those who spin ask, so the other threads of the block get their turn.
template <class Word>
Word peek(const Word* word) {
  gpu_host::give_way();
  return std::atomic_ref(*const_cast<Word*>(word)).load(std::memory_order_relaxed);
}

inline void arrive(int name, int threads) { gpu_host::arrive_at_barrier(name, threads); }

inline void release_in_flow(u64* word, u64 value) { release(word, value); }
inline void post(u64* word, u64 value) { release(word, value); }
inline void let_go(u64* word, u64 value) { release(word, value); }
inline void tell(u32* word, u32 value) { release(word, value); }

inline u32 told(const u32* word) {
  peek(word);
  return acquire(word);
}

inline u32 look(const u32* word) {
  at_word(nullptr);
  return std::atomic_ref(*const_cast<u32*>(word)).load(std::memory_order_relaxed);
}

inline void prepare_barriers() {}
inline void sync_block() { gpu_host::wait_at_barrier(0, 0); }
inline void sync(int name, int threads) { gpu_host::wait_at_barrier(name, threads); }

inline void pass_on(u64* word, u64 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
inline void nap(u32 /*ns*/) { gpu_host::give_way(); }
inline void fail_launch() { gpu_host::fail_launch(); }
inline u64 now_ns() { return gpu_host::now_ns(); }

}  // namespace lanecast::gpu
