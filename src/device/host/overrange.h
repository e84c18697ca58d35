// SPDX-License-Identifier: Apache-2.0
// Averages, an element at a time, where a sum leaves its type's range or has come from beyond it (base/overrange.h).
//
// The same additions in the same order as the loop's, as if exponents knew no end.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/overrange.h"
#include "device/host/formats.h"

namespace lanecast::host {
namespace {

/// A type of so many bits, as it lies in memory and as it is added. Limit: what rounds to infinity from there on.
template <class CodeOf, class ValueOf, int exponent_bits, int mantissa_bits>
struct FloatLayout {
  using Code = CodeOf;
  using Value = ValueOf;
  using Word = std::conditional_t<sizeof(Value) == 8, std::uint64_t, std::uint32_t>;
  static constexpr int kMantissa = mantissa_bits;
  static constexpr int kValueMantissa = sizeof(Value) == 8 ? 52 : 23;
  static constexpr int kBias = sizeof(Value) == 8 ? 1023 : 127;  // of a Value
  static constexpr int kEnd = 1 << (exponent_bits - 1);          // numbers end before 2 to this
  static constexpr bool kFillsValue = kEnd > kBias;              // no Value lies beyond
  static constexpr Code kSign = Code{1} << (exponent_bits + mantissa_bits);
  static constexpr Code kInfinity = ((Code{1} << exponent_bits) - 1) << mantissa_bits;
  static constexpr Code kQuiet = Code{1} << (mantissa_bits - 1);
  static constexpr Code kAllOnes = (Code{1} << mantissa_bits) - 1;

  static Value value_of(Word bits) { return __builtin_bit_cast(Value, bits); }
  static Word bits_of(Value value) { return __builtin_bit_cast(Word, value); }
  static constexpr Word kMagnitude = static_cast<Word>(-1) >> 1;
  static constexpr int kShift = kValueMantissa - kMantissa;
  static constexpr Word kRebias = static_cast<Word>(kBias + 1 - kEnd) << kValueMantissa;

  /// Of numbers, and of infinity.
  static Value widen(Code code) {
    const auto magnitude = static_cast<Word>(code & ~kSign);
    Word bits = magnitude << kShift;
    if constexpr (!kFillsValue) {
      if (magnitude >= kInfinity)
        bits = static_cast<Word>(2 * kBias + 1) << kValueMantissa;
      else if (magnitude > kAllOnes)
        bits += kRebias;
      else  // a subnormal, as the mantissa of the smallest normal less that normal
        bits = bits_of(value_of(bits + kRebias + (Word{1} << kValueMantissa)) -
                       value_of(kRebias + (Word{1} << kValueMantissa)));
    }
    const Value value = value_of(bits);
    return (code & kSign) != 0 ? -value : value;
  }

  /// To nearest, ties to even; what rounds to a number, or is infinite.
  static Code narrow(Value value) {
    const Word bits = bits_of(value), magnitude = bits & kMagnitude;
    const Code sign = bits != magnitude ? kSign : Code{0};
    if constexpr (kShift == 0) {
      return static_cast<Code>(bits);
    } else {
      if (magnitude == static_cast<Word>(2 * kBias + 1) << kValueMantissa) return sign | kInfinity;
      if (!kFillsValue && magnitude < kRebias + (Word{1} << kValueMantissa)) {
        // Beside the float whose last bit is worth our smallest subnormal, the adder itself rounds to multiples of it.
        const Value coarse = value_of(kRebias + (static_cast<Word>(1 - kMantissa + kValueMantissa) << kValueMantissa));
        return sign | static_cast<Code>(bits_of(value_of(magnitude) + coarse) - bits_of(coarse));
      }
      const Word odd = (magnitude >> kShift) & 1;
      const Word rebias = kFillsValue ? 0 : kRebias;
      return sign | static_cast<Code>((magnitude - rebias + (Word{1} << (kShift - 1)) - 1 + odd) >> kShift);
    }
  }

  static Value largest() { return widen(kInfinity - 1); }
  /// Half a step beyond the largest; where Value is the type itself, nothing rounds to infinity.
  static Value limit() {
    if constexpr (kShift == 0)
      return value_of(static_cast<Word>(2 * kBias + 1) << kValueMantissa);
    else
      return value_of((bits_of(largest()) + (Word{1} << (kShift - 1))));
  }
};

template <class Format>
struct LayoutOf {
  using Type = void;
};
template <>
struct LayoutOf<Plain<double>> {
  using Type = FloatLayout<std::uint64_t, double, 11, 52>;
};
template <>
struct LayoutOf<Plain<float>> {
  using Type = FloatLayout<std::uint32_t, float, 8, 23>;
};
template <>
struct LayoutOf<Float16> {
  using Type = FloatLayout<std::uint16_t, float, 5, 10>;
};
template <>
struct LayoutOf<BFloat16> {
  using Type = FloatLayout<std::uint16_t, float, 8, 7>;
};
template <class Format>
constexpr bool kHasOverrange = !std::is_void_v<typename LayoutOf<Format>::Type>;

/// A sum whose exponent may be larger than a Value's.
template <class Layout>
struct WideSum {
  using Value = typename Layout::Value;
  using Word = typename Layout::Word;
  static constexpr int kScale = 64;  // more doublings than there are among any ranks

  Value value;  // times 2^kScale if scaled
  bool scaled = false;

  static Value power(int exponent) {
    return Layout::value_of(static_cast<Word>(Layout::kBias + exponent) << Layout::kValueMantissa);
  }
  static bool is_finite(Value value) { return value - value == 0; }
  Value down() const { return scaled ? value : value * power(-kScale); }

  /// What is lost of the smaller one when it is scaled lies below the last bit of the larger one.
  friend WideSum operator+(WideSum a, WideSum b) {
    if (!a.scaled && !b.scaled) {
      const Value sum = a.value + b.value;
      if (is_finite(sum) || !is_finite(a.value) || !is_finite(b.value)) return {sum};
    }
    const Value sum = a.down() + b.down();
    const Value up = sum * power(kScale);
    return is_finite(up) ? WideSum{up} : WideSum{sum, true};
  }
};

template <class Layout>
WideSum<Layout> read(typename Layout::Code code, std::uint32_t overrange) {
  using Word = typename Layout::Word;
  const auto magnitude = static_cast<typename Layout::Code>(code & ~Layout::kSign);
  if (magnitude <= Layout::kInfinity) return {Layout::widen(code)};
  const auto payload = static_cast<typename Layout::Code>(magnitude - Layout::kInfinity);
  if (payload == Layout::kQuiet || payload == Layout::kAllOnes || overrange == kAddedAtOnce)
    return {static_cast<typename Layout::Value>(__builtin_nan(""))};
  // Counted from above: payloads that programs make by themselves are small ones.
  const Word step = static_cast<Word>(Layout::kAllOnes - 1 - payload - (payload < Layout::kQuiet ? 1 : 0))
                    << (overrange - 1);
  constexpr bool scaled = Layout::kFillsValue;
  const auto exponent = static_cast<Word>(Layout::kEnd + Layout::kBias - (scaled ? WideSum<Layout>::kScale : 0)) +
                        (step >> Layout::kMantissa);
  const auto value =
      Layout::value_of((exponent << Layout::kValueMantissa) | ((step & Word{Layout::kAllOnes}) << Layout::kShift));
  return {(code & Layout::kSign) != 0 ? -value : value, scaled};
}

template <class Layout>
typename Layout::Code quiet_nan() {
  return Layout::kInfinity | Layout::kQuiet;
}

/// A partial sum.
template <class Layout>
typename Layout::Code sum_of(const WideSum<Layout>& sum, int longer) {
  using Code = typename Layout::Code;
  const auto value = sum.value;
  if (value != value) return quiet_nan<Layout>();
  const auto magnitude = value < 0 ? -value : value;
  if (!WideSum<Layout>::is_finite(value) || (!sum.scaled && magnitude < Layout::limit())) return Layout::narrow(value);
  const auto bits = static_cast<std::int64_t>(Layout::bits_of(magnitude));
  const std::int64_t end =
      static_cast<std::int64_t>(Layout::kEnd + Layout::kBias - (sum.scaled ? WideSum<Layout>::kScale : 0))
      << Layout::kValueMantissa;
  const int shift = Layout::kShift + longer;
  const std::int64_t beyond = bits < end ? 0 : bits - end;
  const std::int64_t half = shift == 0 ? 0 : (std::int64_t{1} << (shift - 1)) - 1 + ((beyond >> shift) & 1);
  std::int64_t step = (beyond + half) >> shift;
  constexpr std::int64_t last = Layout::kAllOnes - 3;
  if (step > last) step = last;  // rounded up again and again
  auto payload = static_cast<Code>(Layout::kAllOnes - 1 - step);
  if (payload <= Layout::kQuiet) --payload;
  return (value < 0 ? Layout::kSign : Code{0}) | static_cast<Code>(Layout::kInfinity + payload);
}

/// A mean is never larger than the largest number, however its sum was rounded.
template <class Layout>
typename Layout::Code mean_of(const WideSum<Layout>& sum, double divisor) {
  using Value = typename Layout::Value;
  auto mean = sum.value / static_cast<Value>(divisor);
  if (mean != mean) return quiet_nan<Layout>();
  if (WideSum<Layout>::is_finite(sum.value)) {
    if (sum.scaled) mean *= WideSum<Layout>::power(WideSum<Layout>::kScale);
    const Value largest = Layout::largest();
    mean = mean > largest ? largest : mean < -largest ? -largest : mean;
  }
  return Layout::narrow(mean);
}

/// Bytes of a reduction that lie together: `at` bytes behind the beginning of every source.
struct Stretch {
  std::byte* dst;
  const void* const* sources;
  std::size_t source_count;
  std::size_t at, bytes;
};

/// Not inlined: the loop around it is short, and seldom comes here.
template <class Format>
__attribute__((noinline)) void average_beyond(const Stretch& stretch, const Finish& finish) {
  using Layout = typename LayoutOf<Format>::Type;
  using Code = typename Layout::Code;
  for (std::size_t i = 0; i < stretch.bytes; i += sizeof(Code)) {
    const auto read_from = [&](std::size_t s) {
      Code code;
      __builtin_memcpy(&code, static_cast<const std::byte*>(stretch.sources[s]) + stretch.at + i, sizeof code);
      return read<Layout>(code, finish.overrange);
    };
    WideSum<Layout> sum = read_from(0);
    for (std::size_t s = 1; s < stretch.source_count; ++s) sum = sum + read_from(s);
    const Code code = finish.divisor == 1 ? sum_of<Layout>(sum, static_cast<int>(finish.overrange) - 1)
                                          : mean_of<Layout>(sum, finish.divisor);
    __builtin_memcpy(stretch.dst + i, &code, sizeof code);
  }
}

/// Is any of a group's results no number of the type, NaN and infinity among them? Then a sum has left its range, or a
/// source beyond it came in. As integers, NaN is the largest.
template <class Format>
bool leaves_range(const typename Format::Value* values, int count) {
  using Layout = typename LayoutOf<Format>::Type;
  using Integer = std::conditional_t<sizeof(typename Layout::Word) == 8, long long, int>;
  using Integers = Vector<Integer>;
  Integers largest{};
  for (int k = 0; k < count; ++k) {
    const auto magnitude =
        reinterpret_cast<Integers>(values[k]) & (Integers{} + static_cast<Integer>(Layout::kMagnitude));
    largest = magnitude > largest ? magnitude : largest;
  }
  const auto beyond = largest >= Integers{} + static_cast<Integer>(Layout::bits_of(Layout::limit()));
#if defined(__AVX2__)
  return _mm256_testz_si256(reinterpret_cast<__m256i>(beyond), reinterpret_cast<__m256i>(beyond)) == 0;
#else
  const auto words = reinterpret_cast<Vector<long long>>(beyond);
  return (words[0] | words[1]) != 0;
#endif
}

}  // namespace
}  // namespace lanecast::host
