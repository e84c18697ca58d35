// SPDX-License-Identifier: Apache-2.0
// How elements of each type lie in 16 bytes, and the type in which they are added. Results have the same bits as those
// of the CPU's kernels: 16- and 8-bit floats are added in fp32, and no NaN is stored but the positive quiet one.
#pragma once

#include "device/gpu/kernels/primitives.cuh"

namespace lanecast::gpu {

struct alignas(16) Vector {
  u32 word[4];
};

template <class To, class From>
__device__ inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

/// Those that the machine narrows two at a time, from compute capability 8.0 on, have narrow_pair(low, high), of a
/// word's halves.
struct AnyFormat {
  static constexpr bool kPairs = false;
};

/// Elements that are added in another type of their own kind. `Wide` wraps.
template <class T, class As, class Wide>
struct Whole : AnyFormat {
  using Stored = T;
  using Value = As;
  using Wrapping = Wide;
  static constexpr bool kFloat = false;
  __device__ static Value widen(Stored stored) { return stored; }
  __device__ static Stored narrow(Value value) { return static_cast<Stored>(value); }
};
struct Int8 : Whole<signed char, int, u32> {};
struct UInt8 : Whole<u8, u32, u32> {};
struct Int16 : Whole<short, int, u32> {};
struct UInt16 : Whole<u16, u32, u32> {};
struct Int32 : Whole<int, int, u32> {};
struct UInt32 : Whole<u32, u32, u32> {};
struct Int64 : Whole<long long, long long, u64> {};
struct UInt64 : Whole<u64, u64, u64> {};

template <class T>
struct Float : AnyFormat {
  using Stored = T;
  using Value = T;
  static constexpr bool kFloat = true;
  __device__ static Value widen(Stored stored) { return stored; }
  __device__ static Stored narrow(Value value) { return value; }
  __device__ static Value nan();
};
template <>
__device__ inline float Float<float>::nan() {
  return bits<float>(0x7fc00000u);
}
template <>
__device__ inline double Float<double>::nan() {
  return bits<double>(u64{0x7ff8000000000000});
}
struct Float64 : Float<double> {};
struct Float32 : Float<float> {};

struct BFloat16 : Float<float> {
  using Stored = u16;
  __device__ static float widen(u16 code) { return bits<float>(u32{code} << 16); }
  __device__ static u16 narrow(float value) {  // to nearest, ties to even
    const u32 pattern = bits<u32>(value);
    return static_cast<u16>((pattern + 0x7fff + ((pattern >> 16) & 1)) >> 16);
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static constexpr bool kPairs = true;
  __device__ static u32 narrow_pair(float low, float high) { return nan_of_pair(bfloats_of_floats(low, high), 0x7fc0); }
#endif
};

/// What the topmost exponent means: infinity and NaN, or (OCP's e4m3fn) numbers, and NaN in the topmost code alone.
template <class Code, int exponent_bits, int mantissa_bits, bool has_infinity>
struct SmallFloat : Float<float> {
  using Stored = Code;
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr u32 kSign = 1u << (exponent_bits + mantissa_bits);
  static constexpr u32 kRebias = (128u - (1u << (exponent_bits - 1))) << 23;
  static constexpr u32 kTop = kSign - 1;  // all bits but the sign
  static constexpr u32 kOverflow = has_infinity ? ((1u << exponent_bits) - 1) << mantissa_bits : kTop;
  static constexpr u32 kNan = has_infinity && sizeof(Code) == 2 ? kOverflow | 1u << (mantissa_bits - 1) : kTop;

  __device__ static float widen(Code code) {
    const u32 magnitude = code & kTop;
    u32 pattern;
    if (magnitude >> mantissa_bits) {
      pattern = (magnitude << kShift) + kRebias;
    } else {  // as the mantissa of the smallest normal, less that normal: a subnormal finds its exponent
      const u32 smallest = kRebias + (1u << 23);
      pattern = bits<u32>(bits<float>((magnitude << kShift) + smallest) - bits<float>(smallest));
    }
    if (magnitude >= kOverflow) pattern |= 0xffu << 23;
    return bits<float>(pattern | (code & kSign) << (31 - exponent_bits - mantissa_bits));
  }

  __device__ static Code narrow(float value) {  // to nearest, ties to even
    const u32 pattern = bits<u32>(value);
    const u32 magnitude = pattern & 0x7fffffffu;
    u32 code;
    if (magnitude < kRebias + (1u << 23)) {
      // Beside the float whose last bit is worth our smallest subnormal, the adder itself rounds to multiples of that.
      const u32 coarse = kRebias + ((1u - mantissa_bits + 23) << 23);
      code = bits<u32>(bits<float>(magnitude) + bits<float>(coarse)) - coarse;
    } else {
      code = (magnitude - kRebias + (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1)) >> kShift;
    }
    if (code > kOverflow) code = kOverflow;
    if (magnitude > 0x7f800000u) code = kNan;
    return static_cast<Code>(code | (pattern >> 31) * kSign);
  }
};
struct Float16 : SmallFloat<u16, 5, 10, true> {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)  // by the machine's own conversion, which rounds alike
  __device__ static float widen(u16 code) { return float_of_half(code); }
  __device__ static u16 narrow(float value) {
    const u16 code = half_of_float(value);
    return value == value ? code : static_cast<u16>(kNan);
  }
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  static constexpr bool kPairs = true;
  __device__ static u32 narrow_pair(float low, float high) { return nan_of_pair(halves_of_floats(low, high), kNan); }
#endif
};
struct Float8E4M3 : SmallFloat<u8, 4, 3, false> {};
struct Float8E5M2 : SmallFloat<u8, 5, 2, true> {};

// The numbers of ReduceOp.
enum Op : u32 { kSum, kProd, kMin, kMax, kAvg, kAnd, kOr, kXor };

/// Of two equal values (0 and -0) the later one is taken; a NaN is handed on.
template <class Format>
__device__ inline typename Format::Value combine(u32 op, typename Format::Value a, typename Format::Value b) {
  using Value = typename Format::Value;
  if constexpr (Format::kFloat) {
    switch (op) {
      case kProd:
        return a * b;
      case kMin:
        return a != a ? a : a < b ? a : b;
      case kMax:
        return a != a ? a : a > b ? a : b;
      default:
        return a + b;
    }
  } else {
    using Wrapping = typename Format::Wrapping;
    const auto x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
    switch (op) {
      case kProd:
        return static_cast<Value>(x * y);
      case kMin:
        return a < b ? a : b;
      case kMax:
        return a > b ? a : b;
      case kAnd:
        return static_cast<Value>(x & y);
      case kOr:
        return static_cast<Value>(x | y);
      case kXor:
        return static_cast<Value>(x ^ y);
      default:
        return static_cast<Value>(x + y);
    }
  }
}

template <class Format>
union Elements {
  static constexpr int kCount = 16 / sizeof(typename Format::Stored);
  Vector vector;
  typename Format::Stored each[kCount];
};

/// As it is stored, a NaN as the positive quiet one.
template <class Format>
__device__ inline typename Format::Stored narrow(typename Format::Value value) {
  if constexpr (Format::kFloat)
    if (value != value) value = Format::nan();
  return Format::narrow(value);
}

template <class Format>
__device__ inline typename Format::Stored finish(typename Format::Value value, double divisor) {
  if constexpr (Format::kFloat)
    if (divisor != 1) value /= static_cast<typename Format::Value>(divisor);
  return narrow<Format>(value);
}

/// A vector's worth.
template <class Format>
__device__ inline Vector finish(typename Format::Value (&values)[Elements<Format>::kCount], double divisor) {
  if constexpr (Format::kFloat)
    if (divisor != 1)
      for (auto& value : values) value /= static_cast<typename Format::Value>(divisor);
  Elements<Format> elements;
  if constexpr (Format::kPairs)
    for (int k = 0; k < 4; ++k) elements.vector.word[k] = Format::narrow_pair(values[2 * k], values[2 * k + 1]);
  else
    for (int e = 0; e < Elements<Format>::kCount; ++e) elements.each[e] = narrow<Format>(values[e]);
  return elements.vector;
}

}  // namespace lanecast::gpu
