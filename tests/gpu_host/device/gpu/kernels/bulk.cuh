// SPDX-License-Identifier: Apache-2.0
// In place of the file of this name: the copy engine's work is done by who waits for it, or at once.
#pragma once

#include "bulk.h"
#include "device/gpu/kernels/primitives.cuh"

#define LANECAST_BULK

namespace lanecast::gpu {

inline u8* shared_room() {
  alignas(128) static thread_local u8 room[kPumpedBytes];
  return room;
}

inline void prepare_mark(u64* mark, u32 threads) { gpu_host::prepare_mark(mark, threads); }
inline void order_marks() {}
/// Those whom it tells of something get their turn before what this thread does next.
inline void come_to(u64* mark) {
  gpu_host::come_to(mark, 0);
  gpu_host::give_way();
}
inline void come_to_as_warp(u64* mark) { gpu_host::come_to_as_warp(mark); }
inline void come_with_loads(u64* mark, u32 bytes) { gpu_host::come_to(mark, bytes); }
inline void bulk_load(u8* to_shared, u64 from, u32 bytes, u64* mark) {
  const gpu_host::Copy copy{to_shared, reinterpret_cast<const void*>(from), bytes};
  if (!gpu_host::load(mark, copy)) return;
  copy.run();
  gpu_host::loaded(mark);
}
inline bool has_passed(u64* mark, u32 parity) {
  for (gpu_host::Copy copy; gpu_host::next_load(mark, parity, &copy);) copy.run();
  return gpu_host::passed(mark, parity);
}
inline void await_mark(u64* mark, u32 parity) {
  while (!has_passed(mark, parity)) gpu_host::give_way();
}

inline void bulk_store(u64 to, const u8* from_shared, u32 bytes) {
  gpu_host::store({reinterpret_cast<void*>(to), from_shared, bytes});
}
inline void end_group() { gpu_host::end_group(); }
template <int kUnderWay>
void await_groups() {
  for (gpu_host::Copy copy; gpu_host::next_store(kUnderWay, &copy);) copy.run();
}
inline void order_bulk() {}
inline void order_bulk_shared() {}

}  // namespace lanecast::gpu
