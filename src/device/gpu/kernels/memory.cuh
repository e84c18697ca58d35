// SPDX-License-Identifier: Apache-2.0
// Copies and reductions by the threads of a block or of a whole grid: 16 bytes an access where the addresses allow it.
// Only the accesses that are to be under way at once are unrolled, and nothing long is inlined: there are many kernels,
// and users wait for their compilation.
#pragma once

#include "device/gpu/kernels/arguments.h"
#include "device/gpu/kernels/overrange.cuh"

namespace lanecast::gpu {

constexpr int kUnroll = 4;  // accesses of a thread that are under way at once: of a reduction's sources each, and
constexpr int kCopies = 8;  // of a copy

/// The threads that share a piece of work: some of a block's, or all of a grid.
struct Team {
  u32 index, size;
};
__device__ inline Team grid_team() { return {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x}; }

/// How many of those left lie within a thread's next accesses, which are `step` apart.
template <int kAccesses>
__device__ inline u32 within(u64 left, u32 step) {
  return static_cast<u32>(min(left, u64{kAccesses} * step));
}

/// Reads n elements, and has `give` put each lot that a thread holds at once wherever it should be. The last accesses
/// of a thread, too, are under way at once: one after another they cost a memory's latency each, and a block's piece of
/// a collective is seldom a multiple of what its threads move at once.
template <class T, class Give>
__device__ inline void read_lots(Team team, u64 from, u64 n, Give give) {
  const T* const source = reinterpret_cast<const T*>(from);
  const u32 step = team.size;
#pragma unroll 1
  for (u64 i = team.index; i < n; i += kCopies * step) {
    const u32 left = within<kCopies>(n - i, step);
    T values[kCopies] = {};
    for (int k = 0; k < kCopies; ++k)
      if (k * step < left) values[k] = source[i + k * step];
    give([&](u64 to) {
      for (int k = 0; k < kCopies; ++k)
        if (k * step < left) reinterpret_cast<T*>(to)[i + k * step] = values[k];
    });
  }
}

template <class T>
__device__ inline void copy_as(Team team, u64 to, u64 from, u64 bytes) {
  read_lots<T>(team, from, bytes / sizeof(T), [&](const auto& put) { put(to); });
}

__device__ __noinline__ void copy_bytes(Team team, u64 to, u64 from, u64 bytes) {
  const u64 unaligned = to | from;
  if (unaligned % 16 == 0) {
    const u64 whole = bytes / 16 * 16;
    copy_as<Vector>(team, to, from, whole);
    copy_as<u8>(team, to + whole, from + whole, bytes - whole);
  } else if ((unaligned | bytes) % 4 == 0) {
    copy_as<u32>(team, to, from, bytes);
  } else if ((unaligned | bytes) % 2 == 0) {
    copy_as<u16>(team, to, from, bytes);
  } else {
    copy_as<u8>(team, to, from, bytes);
  }
}

/// Reads once and writes to several.
__device__ __noinline__ void multicast_bytes(Team team, const u64* to, int n, u64 from, u64 bytes) {
  u64 unaligned = from;
  for (int q = 0; q < n; ++q) unaligned |= to[q];
  if (unaligned % 16 != 0) {
    for (int q = 0; q < n; ++q) copy_bytes(team, to[q], from, bytes);
    return;
  }
  const u64 vectors = bytes / 16;
  read_lots<Vector>(team, from, vectors, [&](const auto& put) {
#pragma unroll 1
    for (int q = 0; q < n; ++q) put(to[q]);
  });
  for (int q = 0; q < n; ++q) copy_as<u8>(team, to[q] + 16 * vectors, from + 16 * vectors, bytes % 16);
}

/// Of vectors i, i + step, …, whose sums leave an average's range.
template <class Format>
__device__ inline void average_beyond(const ReductionArguments& r, u64 i, u32 step, u32 vectors) {
  average_vectors<Format>({r.source, 0, 0, r.sources}, {r.target, 0, 0, r.targets}, i, step, vectors,
                          {r.divisor, r.overrange});
}

/// Sums of vectors i, i + step, … below n, of two sources: what is asked for most, with many loads under way. Short
/// calls wait for each instruction, so those of averages are left out where none is asked for.
template <class Format, bool kAverages>
__device__ inline void add_pairs(const ReductionArguments& r, u64 i, u32 step, u64 n) {
  const u32 left = within<kUnroll>(n - i, step);
  Elements<Format> a[kUnroll] = {}, b[kUnroll] = {};
  bool leaves = false;
  for (int k = 0; k < kUnroll; ++k) {
    if (k * step >= left) continue;
    a[k].vector = reinterpret_cast<const Vector*>(r.source[0])[i + k * step];
    b[k].vector = reinterpret_cast<const Vector*>(r.source[1])[i + k * step];
  }
  for (int k = 0; k < kUnroll; ++k) {
    if (k * step >= left) continue;
    typename Format::Value sums[Elements<Format>::kCount];
    for (int e = 0; e < Elements<Format>::kCount; ++e)
      sums[e] = combine<Format>(kSum, Format::widen(a[k].each[e]), Format::widen(b[k].each[e]));
    a[k].vector = finish<Format>(sums, kAverages ? r.divisor : 1);
    leaves |= kAverages && leaves_range<Format>(sums, r.overrange);
  }
  if (leaves) return average_beyond<Format>(r, i, step, (left + step - 1) / step);
#pragma unroll 1
  for (u32 t = 0; t < r.targets; ++t) {
    Vector* const to = reinterpret_cast<Vector*>(r.target[t]) + i;
    for (int k = 0; k < kUnroll; ++k)
      if (k * step < left) to[k * step] = a[k].vector;
  }
}

/// A vector's elements, by any operator: one branch for all of them.
template <class Format>
__device__ inline void combine_each(u32 op, typename Format::Value (&values)[Elements<Format>::kCount],
                                    const Elements<Format>& others) {
  const auto by = [&](auto one) {
    for (int e = 0; e < Elements<Format>::kCount; ++e) values[e] = one(values[e], Format::widen(others.each[e]));
  };
  using Value = typename Format::Value;
  switch (op) {
    case kProd:
      return by([](Value a, Value b) { return combine<Format>(kProd, a, b); });
    case kMin:
      return by([](Value a, Value b) { return combine<Format>(kMin, a, b); });
    case kMax:
      return by([](Value a, Value b) { return combine<Format>(kMax, a, b); });
    default:
      return by([op](Value a, Value b) { return combine<Format>(op, a, b); });
  }
}

/// A thread's next vectors, which are `step` apart, of any number of sources: at(s) is where those of source s begin.
/// Of kAtOnce sources loads are under way at once, beside the first.
template <class Format, int kVectors, int kAtOnce, class At>
__device__ inline void combine_sources(u32 op, typename Format::Value (&results)[kVectors][Elements<Format>::kCount],
                                       u32 sources, u32 left, u32 step, At at) {
  const auto read = [&](u32 s, auto take) {
    const Vector* const from = at(s);
    Elements<Format> elements[kVectors] = {};
    for (int k = 0; k < kVectors; ++k)
      if (k * step < left) elements[k].vector = from[k * step];
    for (int k = 0; k < kVectors; ++k) take(results[k], elements[k]);
  };
  read(0, [](auto& values, const Elements<Format>& first) {
    for (int e = 0; e < Elements<Format>::kCount; ++e) values[e] = Format::widen(first.each[e]);
  });
#pragma unroll kAtOnce
  for (u32 s = 1; s < sources; ++s)
    read(s, [op](auto& values, const Elements<Format>& others) { combine_each<Format>(op, values, others); });
}

/// Vectors of any number of sources, whose results a thread keeps meanwhile.
template <class Format>
constexpr int kSeveral = Elements<Format>::kCount > 8 ? 1 : 2;

/// The same of vectors i, i + step, … below n, by any operator. For one that is not known here, whose code has a branch
/// for each, loads of one source are under way at once.
template <class Format, int kAtOnce>
__device__ inline void combine_several(u32 op, const ReductionArguments& r, u64 i, u32 step, u64 n) {
  constexpr int kVectors = kSeveral<Format>;
  const u32 left = within<kVectors>(n - i, step);
  typename Format::Value values[kVectors][Elements<Format>::kCount];
  combine_sources<Format, kVectors, kAtOnce>(op, values, r.sources, left, step,
                                             [&](u32 s) { return reinterpret_cast<const Vector*>(r.source[s]) + i; });
  Vector results[kVectors];
  bool leaves = false;
  for (int k = 0; k < kVectors; ++k) {
    results[k] = finish<Format>(values[k], r.divisor);
    leaves |= k * step < left && leaves_range<Format>(values[k], r.overrange);
  }
  if (leaves) return average_beyond<Format>(r, i, step, (left + step - 1) / step);
  for (int k = 0; k < kVectors; ++k)
    for (u32 t = 0; t < r.targets && k * step < left; ++t)
      reinterpret_cast<Vector*>(r.target[t])[i + k * step] = results[k];
}

/// Element i, by any operator.
template <class Format>
__device__ inline void reduce_element(const ReductionArguments& r, u64 i) {
  using Stored = typename Format::Stored;
  typename Format::Value value = Format::widen(reinterpret_cast<const Stored*>(r.source[0])[i]);
#pragma unroll 1
  for (u32 s = 1; s < r.sources; ++s)
    value = combine<Format>(r.op, value, Format::widen(reinterpret_cast<const Stored*>(r.source[s])[i]));
  const Averaging how{r.divisor, r.overrange};
  if (leaves_range<Format>(value, how))
    return average_element<Format>({r.source, 0, 0, r.sources}, {r.target, 0, 0, r.targets}, i, how);
  const Stored result = finish<Format>(value, r.divisor);
  for (u32 t = 0; t < r.targets; ++t) reinterpret_cast<Stored*>(r.target[t])[i] = result;
}

/// A target may be one of the sources. By vectors where the addresses allow it, sums by the shortest way.
template <class Format>
__device__ __noinline__ void reduce_bytes(Team team, const ReductionArguments& r) {
  using Stored = typename Format::Stored;
  u64 unaligned = 0;
#pragma unroll 1
  for (u32 t = 0; t < r.targets; ++t) unaligned |= r.target[t];
#pragma unroll 1
  for (u32 s = 0; s < r.sources; ++s) unaligned |= r.source[s];
  const bool adds = r.op == kSum || r.op == kAvg;
  const u64 vectors = unaligned % 16 == 0 ? r.bytes / 16 : 0;
  const bool pairs = adds && r.sources == 2, averages = r.divisor != 1 || r.overrange != 0;
  const u64 batch = u64{team.size} * (pairs ? kUnroll : kSeveral<Format>);
#pragma unroll 1
  for (u64 i = team.index; i < vectors; i += batch) {
    if (pairs && !averages)
      add_pairs<Format, false>(r, i, team.size, vectors);
    else if (pairs)
      add_pairs<Format, true>(r, i, team.size, vectors);
    else if (adds)
      combine_several<Format, /*kAtOnce=*/3>(kSum, r, i, team.size, vectors);
    else
      combine_several<Format, /*kAtOnce=*/1>(r.op, r, i, team.size, vectors);
  }
  if (vectors * 16 == r.bytes) return;
#pragma unroll 1
  for (u64 k = vectors * Elements<Format>::kCount + team.index; k < r.bytes / sizeof(Stored); k += team.size)
    reduce_element<Format>(r, k);
}

}  // namespace lanecast::gpu
