// SPDX-License-Identifier: Apache-2.0
// How the elements of each type come out of memory into a vector of values, and go back.
//
// A format has `Value`, the vector of `Element`s its arithmetic runs in; `kLanes`; `kBytes`, what kLanes elements take
// in memory; `load` and `store`. A value that is stored holds no NaN other than the positive quiet one without payload.
#pragma once

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "device/host/vector.h"

namespace lanecast::host {
namespace {

/// Elements whose arithmetic runs in their own type.
template <class T>
struct Plain {
  static constexpr int kLanes = kVectorBytes / sizeof(T);
  static constexpr int kBytes = kVectorBytes;
  using Element = T;
  using Value = Vector<T, kLanes>;
  static Value load(const std::byte* from) { return host::load<Value>(from); }
  static void store(std::byte* to, Value value) { host::store(to, value); }
};

constexpr int kFloatLanes = kVectorBytes / 4;
using Floats = Vector<float, kFloatLanes>;
using Words = Vector<std::int32_t, kFloatLanes>;

/// 16- and 8-bit floats, whose arithmetic runs in fp32. `Codec` translates codes, held in 32-bit lanes.
template <class Codec, class Code>
struct Narrow {
  static constexpr int kLanes = kFloatLanes;
  static constexpr int kBytes = kLanes * sizeof(Code);
  using Element = float;
  using Value = Floats;
  using Codes = Vector<Code, kLanes>;
  static Value load(const std::byte* from) {
    return Codec::decode(__builtin_convertvector(host::load<Codes>(from), Words));
  }
  static void store(std::byte* to, Value value) {
    host::store(to, __builtin_convertvector(Codec::encode(value), Codes));
  }
};

struct BFloat16Codec {
  static Floats decode(Words codes) { return reinterpret_cast<Floats>(codes << 16); }
  static Words encode(Floats value) {
    const auto bits = reinterpret_cast<Words>(value);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
  }
};

/// A float of a sign, `exponent_bits` and `mantissa_bits`. With infinity: as IEEE 754; without: as OCP's e4m3fn, whose
/// topmost code is NaN and takes the overflow.
template <int exponent_bits, int mantissa_bits, bool has_infinity, int nan_code>
struct SmallFloatCodec {
  static constexpr int kSignShift = 31 - exponent_bits - mantissa_bits;
  static constexpr int kSign = 1 << (exponent_bits + mantissa_bits);
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int kShift = 23 - mantissa_bits;    // between the mantissas here and in fp32
  static constexpr int kRebias = (127 - kBias) << 23;  // between the exponents
  static constexpr int kSpecial = has_infinity ? ((1 << exponent_bits) - 1) << mantissa_bits : nan_code;
  static constexpr int kOneUlp = (128 - kBias - mantissa_bits) << 23;  // fp32 bits of the smallest subnormal
  static constexpr int kMagic = kOneUlp + (23 << 23);                  // fp32 bits of the float with that ulp
  static constexpr int kInfinity = 0x7f800000, kNan = 0x7fc00000;

  static Floats splat(int bits) { return reinterpret_cast<Floats>(Words{} + bits); }

  static Floats decode(Words codes) {
    const Words magnitude = codes & (kSign - 1);
    const Words normal = (magnitude << kShift) + kRebias;
    const auto subnormal = reinterpret_cast<Words>(__builtin_convertvector(magnitude, Floats) * splat(kOneUlp));
    Words bits = magnitude < (1 << mantissa_bits) ? subnormal : normal;
    bits =
        magnitude >= kSpecial ? (has_infinity && magnitude == kSpecial ? kInfinity + Words{} : kNan + Words{}) : bits;
    return reinterpret_cast<Floats>(bits | ((codes & kSign) << kSignShift));
  }

  static Words encode(Floats value) {
    const auto bits = reinterpret_cast<Words>(value);
    const Words magnitude = bits & 0x7fffffff;
    const Words odd = (magnitude >> kShift) & 1;
    const Words normal = (magnitude - kRebias + ((1 << (kShift - 1)) - 1) + odd) >> kShift;
    // Adding the float whose ulp is our smallest subnormal makes the adder round to a multiple of that.
    const Words subnormal = reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) + splat(kMagic)) - kMagic;
    Words code = magnitude < kRebias + (1 << 23) ? subnormal : normal;
    code = code > kSpecial ? kSpecial + Words{} : code;
    code = magnitude > kInfinity ? nan_code + Words{} : code;
    return code | ((bits >> kSignShift) & kSign);
  }
};

using Float8E4M3 = Narrow<SmallFloatCodec<4, 3, false, 0x7f>, std::uint8_t>;
using Float8E5M2 = Narrow<SmallFloatCodec<5, 2, true, 0x7f>, std::uint8_t>;
using BFloat16 = Narrow<BFloat16Codec, std::uint16_t>;

#if defined(__F16C__) || defined(__AVX512F__)
struct Float16 {
  static constexpr int kLanes = kFloatLanes;
  static constexpr int kBytes = kLanes * 2;
  using Element = float;
  using Value = Floats;
  using Codes = Vector<long long, kBytes / 8>;  // the type beneath __m128i and __m256i
  static constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512F__)
  // The forms without a mask make GCC 12 warn of an uninitialised variable in its own header.
  static constexpr __mmask16 kAll = 0xffff;
  static Value load(const std::byte* from) { return _mm512_maskz_cvtph_ps(kAll, host::load<Codes>(from)); }
  static void store(std::byte* to, Value value) {
    host::store<Codes>(to, _mm512_maskz_cvtps_ph(kAll, value, kToNearest));
  }
#else
  static Value load(const std::byte* from) { return _mm256_cvtph_ps(host::load<Codes>(from)); }
  static void store(std::byte* to, Value value) { host::store<Codes>(to, _mm256_cvtps_ph(value, kToNearest)); }
#endif
};
#else
using Float16 = Narrow<SmallFloatCodec<5, 10, true, 0x7e00>, std::uint16_t>;
#endif

}  // namespace
}  // namespace lanecast::host
