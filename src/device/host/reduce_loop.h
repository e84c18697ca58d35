// SPDX-License-Identifier: Apache-2.0
// The loop that all reduction kernels share.
//
// A group of vectors takes in several sources before it is stored: dst is written once, and partial results of narrow
// floats stay in fp32. Many sources are read a batch at a time, tile by tile, since a CPU prefetches only a few streams
// and buffers that lie alike in their pages evict each other.
#pragma once

#include <type_traits>

#include "device/host/kernels.h"
#include "device/host/operators.h"
#include "device/host/overrange.h"

namespace lanecast::host {
namespace {

constexpr int kGroup = 4;          // vectors of values: more hide no latency, and slow down the memory's streams
constexpr int kTileBytes = 16384;  // of values: partial results stay in the first-level cache
constexpr std::size_t kBatch = 4;  // sources

struct Bytes {
  std::size_t begin, end;
};

struct SourceBatch {
  const void* const* sources;
  std::size_t count;
  bool first, last;
  const Stretch& whole;  // all sources
};

/// Floats only.
template <class T, class V>
V divided(V value, double divisor) {
  if constexpr (std::is_floating_point_v<T>)
    if (divisor != 1.0) value /= V{} + static_cast<T>(divisor);
  return value;
}

/// Floats only: gives every NaN the same bits. (Those of NaN + NaN depend on which operand the compiler puts first, and
/// those of inf - inf on the CPU.)
template <class T, class V>
V with_one_nan(V value) {
  if constexpr (std::is_floating_point_v<T>) value = value == value ? value : V{} + static_cast<T>(__builtin_nan(""));
  return value;
}

/// Averages share their kernel with sums.
template <class Format, class Op>
constexpr bool kAverages = kHasOverrange<Format> && std::is_same_v<Op, Sum>;

template <class Format>
void load_group(const std::byte* from, typename Format::Value* values) {
  for (int k = 0; k < kGroup; k += Format::kVectors)
    Format::load(from + k / Format::kVectors * kVectorBytes, values + k);
}

template <class Format>
void store_group(std::byte* to, const typename Format::Value* values) {
  for (int k = 0; k < kGroup; k += Format::kVectors)
    Format::store(to + k / Format::kVectors * kVectorBytes, values + k);
}

/// Takes a batch into one group. `group_of(s)` points at its bytes in the batch's source s; `partial` is what the
/// batches before have left and this one leaves. False where nothing is stored, since an average leaves its range.
template <class Format, class Op, class GroupOf>
bool reduce_group(std::byte* dst, GroupOf group_of, const SourceBatch& batch, typename Format::Value* partial,
                  const Finish& finish) {
  typename Format::Value values[kGroup], more[kGroup];
  std::size_t s = 0;
  if (batch.first)
    load_group<Format>(group_of(s++), values);
  else
    for (int k = 0; k < kGroup; ++k) values[k] = partial[k];
  for (; s < batch.count; ++s) {
    load_group<Format>(group_of(s), more);
    for (int k = 0; k < kGroup; ++k) values[k] = Op::combine(values[k], more[k]);
  }
  if (!batch.last) {
    for (int k = 0; k < kGroup; ++k) partial[k] = values[k];
    return true;
  }
  using Element = typename Format::Element;
  for (int k = 0; k < kGroup; ++k) values[k] = divided<Element>(values[k], finish.divisor);
  bool has_numbers_alone = false;
  if constexpr (kAverages<Format, Op>) {
    has_numbers_alone = finish.overrange != 0;
    if (has_numbers_alone && leaves_range<Format>(values, kGroup)) return false;
  }
  if (!has_numbers_alone)
    for (int k = 0; k < kGroup; ++k) values[k] = with_one_nan<Element>(values[k]);
  store_group<Format>(dst, values);
  return true;
}

/// Takes a batch into the bytes of a tile.
template <class Format, class Op>
void reduce_tile(std::byte* dst, Bytes tile, const SourceBatch& batch, typename Format::Value* partial,
                 const Finish& finish) {
  const auto beyond = [&](std::size_t at, std::size_t bytes) {
    if constexpr (kAverages<Format, Op>)
      average_beyond<Format>({dst + at, batch.whole.sources, batch.whole.source_count, at, bytes}, finish);
  };
  constexpr std::size_t kGroupBytes = kGroup / Format::kVectors * kVectorBytes;
  std::size_t at = tile.begin;
  for (; at + kGroupBytes <= tile.end; at += kGroupBytes, partial += kGroup) {
    const auto in_place = [&](std::size_t s) { return static_cast<const std::byte*>(batch.sources[s]) + at; };
    if (!reduce_group<Format, Op>(dst + at, in_place, batch, partial, finish)) beyond(at, kGroupBytes);
  }
  if (at == tile.end) return;
  // The rest goes through a buffer as long as a group, so that every element takes the same instructions.
  std::byte staging[kGroupBytes] = {};
  const auto staged = [&](std::size_t s) -> const std::byte* {
    __builtin_memcpy(staging, static_cast<const std::byte*>(batch.sources[s]) + at, tile.end - at);
    return staging;
  };
  if (!reduce_group<Format, Op>(staging, staged, batch, partial, finish))
    beyond(at, tile.end - at);
  else if (batch.last)
    __builtin_memcpy(dst + at, staging, tile.end - at);
}

template <class Format, class Op>
void reduce_loop(void* dst, const void* const* sources, std::size_t source_count, std::size_t count,
                 const Finish& finish) {
  typename Format::Value partial[kTileBytes / kVectorBytes];
  constexpr std::size_t kTile = kTileBytes / Format::kVectors;
  const std::size_t bytes = count * (sizeof(typename Format::Element) / Format::kVectors);
  const Stretch whole{static_cast<std::byte*>(dst), sources, source_count, 0, bytes};
  for (std::size_t begin = 0; begin < bytes; begin += kTile) {
    const Bytes tile{begin, begin + kTile < bytes ? begin + kTile : bytes};
    for (std::size_t s = 0; s < source_count; s += kBatch) {
      const bool last = s + kBatch >= source_count;
      const SourceBatch batch{sources + s, last ? source_count - s : kBatch, s == 0, last, whole};
      reduce_tile<Format, Op>(static_cast<std::byte*>(dst), tile, batch, partial, finish);
    }
  }
}

}  // namespace
}  // namespace lanecast::host
