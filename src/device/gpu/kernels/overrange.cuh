// SPDX-License-Identifier: Apache-2.0
// Averages, an element at a time, where a sum leaves its type's range or has come from beyond it: the bits of the CPU's
// kernels. base/overrange.h says how such a sum lies.
#pragma once

#include "device/gpu/kernels/formats.cuh"

namespace lanecast::gpu {

constexpr u32 kAddedAtOnce = ~0u;  // as in base/overrange.h

/// Of a type that has patterns to spare. Numbers end before 2 to the kEnd; from kLimit on a Value rounds to infinity.
template <class Format>
struct Overrange {
  static constexpr bool kHas = false;
};
template <class CodeOf, class ValueOf, int mantissa_bits, int end>
struct OverrangeOf {
  static constexpr bool kHas = true;
  using Code = CodeOf;
  using Value = ValueOf;
  static constexpr bool kDouble = sizeof(Value) == 8;
  static constexpr int kMantissa = mantissa_bits;
  static constexpr int kValueMantissa = kDouble ? 52 : 23;
  static constexpr int kBias = kDouble ? 1023 : 127;
  static constexpr int kEnd = end;
  static constexpr bool kFillsValue = kEnd > kBias;  // no Value lies beyond
  static constexpr u64 kSign = u64{1} << (8 * sizeof(Code) - 1);
  static constexpr u64 kAllOnes = (u64{1} << mantissa_bits) - 1;
  static constexpr u64 kInfinity = kSign - 1 - kAllOnes;
  static constexpr u64 kQuiet = u64{1} << (mantissa_bits - 1);
  __device__ static Value value_of(u64 pattern) {
    if constexpr (kDouble)
      return bits<double>(pattern);
    else
      return bits<float>(static_cast<u32>(pattern));
  }
  __device__ static u64 pattern_of(Value value) {
    if constexpr (kDouble)
      return bits<u64>(value);
    else
      return bits<u32>(value);
  }
  __device__ static Value power(int exponent) { return value_of(static_cast<u64>(kBias + exponent) << kValueMantissa); }
  static constexpr u64 kLargest =
      (static_cast<u64>(kEnd - 1 + kBias) << kValueMantissa) + (kAllOnes << (kValueMantissa - kMantissa));
  static constexpr u64 kLimit =
      kValueMantissa == kMantissa ? kLargest + 1 : kLargest + (u64{1} << (kValueMantissa - kMantissa) >> 1);
  __device__ static Value largest() { return value_of(kLargest); }
  __device__ static Value limit() { return value_of(kLimit); }
};
template <>
struct Overrange<Float64> : OverrangeOf<u64, double, 52, 1024> {};
template <>
struct Overrange<Float32> : OverrangeOf<u32, float, 23, 128> {};
template <>
struct Overrange<Float16> : OverrangeOf<u16, float, 10, 16> {};
template <>
struct Overrange<BFloat16> : OverrangeOf<u16, float, 7, 128> {};

/// A sum whose exponent may be larger than a Value's.
template <class Format>
struct WideSum {
  using Of = Overrange<Format>;
  using Value = typename Format::Value;
  static constexpr int kScale = 64;  // more doublings than there are among any ranks

  Value value;  // times 2^kScale if scaled
  bool scaled;

  __device__ static bool is_finite(Value value) { return value - value == 0; }
  __device__ Value down() const { return scaled ? value : value * Of::power(-kScale); }

  /// What is lost of the smaller one when it is scaled lies below the last bit of the larger one.
  __device__ WideSum plus(WideSum other) const {
    if (!scaled && !other.scaled) {
      const Value sum = value + other.value;
      if (is_finite(sum) || !is_finite(value) || !is_finite(other.value)) return {sum, false};
    }
    const Value sum = down() + other.down();
    const Value up = sum * Of::power(kScale);
    if (is_finite(up)) return {up, false};
    return {sum, true};
  }
};

template <class Format>
__device__ inline WideSum<Format> read_wide(typename Format::Stored code, u32 overrange) {
  using Of = Overrange<Format>;
  u64 pattern;
  if constexpr (sizeof(code) == sizeof(typename Format::Value))
    pattern = Of::pattern_of(code);
  else
    pattern = code;
  const u64 magnitude = pattern & (Of::kSign - 1);
  if (magnitude <= Of::kInfinity) return {Format::widen(code), false};
  const u64 payload = magnitude - Of::kInfinity;
  if (payload == Of::kQuiet || payload == Of::kAllOnes || overrange == kAddedAtOnce) return {Format::nan(), false};
  const u64 step = (Of::kAllOnes - 1 - payload - (payload < Of::kQuiet ? 1 : 0)) << (overrange - 1);
  const u64 exponent = static_cast<u64>(Of::kEnd + Of::kBias - (Of::kFillsValue ? WideSum<Format>::kScale : 0)) +
                       (step >> Of::kMantissa);
  const auto value =
      Of::value_of((exponent << Of::kValueMantissa) | ((step & Of::kAllOnes) << (Of::kValueMantissa - Of::kMantissa)));
  return {(pattern & Of::kSign) != 0 ? -value : value, Of::kFillsValue};
}

/// A partial sum.
template <class Format>
__device__ inline typename Format::Stored sum_of(const WideSum<Format>& sum, u32 longer) {
  using Of = Overrange<Format>;
  using Stored = typename Format::Stored;
  const auto magnitude = sum.value < 0 ? -sum.value : sum.value;
  if (!WideSum<Format>::is_finite(sum.value) || (!sum.scaled && magnitude < Of::limit()))
    return narrow<Format>(sum.value);
  const u64 pattern = Of::pattern_of(magnitude);
  const u64 end = static_cast<u64>(Of::kEnd + Of::kBias - (sum.scaled ? WideSum<Format>::kScale : 0))
                  << Of::kValueMantissa;
  const u64 beyond = pattern < end ? 0 : pattern - end;
  const u32 shift = Of::kValueMantissa - Of::kMantissa + longer;
  const u64 half = shift == 0 ? 0 : (u64{1} << (shift - 1)) - 1 + ((beyond >> shift) & 1);
  const u64 step = min((beyond + half) >> shift, Of::kAllOnes - 3);
  u64 payload = Of::kAllOnes - 1 - step;
  if (payload <= Of::kQuiet) --payload;
  const u64 code = Of::kInfinity + payload + (sum.value < 0 ? Of::kSign : 0);
  if constexpr (sizeof(Stored) == sizeof(typename Format::Value))
    return Of::value_of(code);
  else
    return static_cast<Stored>(code);
}

/// A mean is never larger than the largest number, however its sum was rounded.
template <class Format>
__device__ inline typename Format::Stored mean_of(const WideSum<Format>& sum, double divisor) {
  using Of = Overrange<Format>;
  using Value = typename Format::Value;
  Value mean = sum.value / static_cast<Value>(divisor);
  if (WideSum<Format>::is_finite(sum.value)) {
    if (sum.scaled) mean *= Of::power(WideSum<Format>::kScale);
    const Value largest = Of::largest();
    mean = mean > largest ? largest : mean < -largest ? -largest : mean;
  }
  return narrow<Format>(mean);
}

/// Where sources or targets begin: at addresses, or one behind the other.
struct Sources {
  const u64* at;
  u64 first, step;
  u32 count;
  __device__ u64 operator[](u32 s) const { return at != nullptr ? at[s] : first + s * step; }
};

/// What becomes of an average's sums.
struct Averaging {
  double divisor;  // 1: partial sums
  u32 overrange;   // 0: no average
};

/// Is any of an average's results no number of the type? Then a sum has left its range, or a source beyond it came in.
template <class Format, int n>
__device__ inline bool leaves_range(const typename Format::Value (&values)[n], u32 overrange) {
  bool leaves = false;
  if constexpr (Overrange<Format>::kHas)
    if (overrange != 0)
      for (const auto value : values)
        leaves |= !(value < Overrange<Format>::limit() && value > -Overrange<Format>::limit());
  return leaves;
}

/// The same of a sum that is still to be divided.
template <class Format>
__device__ inline bool leaves_range(typename Format::Value sum, const Averaging& how) {
  if constexpr (Overrange<Format>::kHas) {
    const typename Format::Value divided[] = {sum / static_cast<typename Format::Value>(how.divisor)};
    return leaves_range<Format>(divided, how.overrange);
  } else {
    return false;
  }
}

/// Element i, where that is so.
template <class Format>
__device__ inline typename Format::Stored average_beyond(const Sources& sources, u64 i, const Averaging& how) {
  using Stored = typename Format::Stored;
  if constexpr (Overrange<Format>::kHas) {
    const auto read = [&](u32 s) {
      return read_wide<Format>(reinterpret_cast<const Stored*>(sources[s])[i], how.overrange);
    };
    WideSum<Format> sum = read(0);
#pragma unroll 1
    for (u32 s = 1; s < sources.count; ++s) sum = sum.plus(read(s));
    return how.divisor == 1 ? sum_of<Format>(sum, how.overrange - 1) : mean_of<Format>(sum, how.divisor);
  } else {
    return Stored{};
  }
}

/// Elements of vectors i, i + step, …, so many vectors, to all targets. Not inlined, since it is seldom needed, and the
/// last that a thread does with them: what it would have to keep for afterwards costs sums their speed.
template <class Format>
__device__ __noinline__ void average_vectors(const Sources& sources, const Sources& targets, u64 i, u32 step,
                                             u32 vectors, const Averaging& how) {
  constexpr u32 n = Elements<Format>::kCount;
#pragma unroll 1
  for (u32 k = 0; k < vectors * n; ++k) {
    const u64 at = (i + k / n * step) * n + k % n;
    const auto result = average_beyond<Format>(sources, at, how);
    for (u32 t = 0; t < targets.count; ++t) reinterpret_cast<typename Format::Stored*>(targets[t])[at] = result;
  }
}

template <class Format>
__device__ __noinline__ void average_element(const Sources& sources, const Sources& targets, u64 i,
                                             const Averaging& how) {
  const auto result = average_beyond<Format>(sources, i, how);
  for (u32 t = 0; t < targets.count; ++t) reinterpret_cast<typename Format::Stored*>(targets[t])[i] = result;
}

}  // namespace lanecast::gpu
