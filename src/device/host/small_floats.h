// SPDX-License-Identifier: Apache-2.0
// 16- and 8-bit floats to fp32 and back, by integer arithmetic on vectors.
//
// A code lies at the top of a 32-bit lane, so that its sign is where fp32 has it. `decode` wants zeros below the code;
// `encode` leaves anything there. It rounds to nearest, ties to even, takes no NaN but the positive quiet one, and
// overflows to infinity, or to NaN where the format has no infinity (as PyTorch does).
#pragma once

#include "device/host/vector.h"

namespace lanecast::host {
namespace {

using Floats = Vector<float>;
using Words = Vector<std::int32_t>;

inline Words splat(int bits) { return Words{} + bits; }
inline Floats as_floats(Words words) { return reinterpret_cast<Floats>(words); }
inline Words as_words(Floats floats) { return reinterpret_cast<Words>(floats); }

constexpr int kSign = INT32_MIN;

struct BFloat16Codec {
  static constexpr int kBits = 16;
  static Floats decode(Words code) { return as_floats(code); }
  static Words encode(Floats value) {
    const Words bits = as_words(value);
    return bits + 0x7fff + ((bits >> 16) & 1);
  }
};

/// What the topmost exponent means: infinity and NaN, or (OCP's e4m3fn) numbers, and NaN in the topmost code alone.
enum class Specials { ieee, nan_only };

template <int exponent_bits, int mantissa_bits, Specials specials>
struct SmallFloatCodec {
  static constexpr int kBits = 1 + exponent_bits + mantissa_bits;
  static constexpr int kAlign = 8 - exponent_bits;  // from a code's place in the lane to where fp32 has its mantissa

  // Patterns of fp32, and of codes in the place of its mantissa.
  static constexpr int kUlp = 1 << (23 - mantissa_bits);
  static constexpr int kExponent = 1 << 23;
  static constexpr int kRebias = (128 - (1 << (exponent_bits - 1))) * kExponent;
  static constexpr int kSmallestNormal = kRebias + kExponent;
  static constexpr int kSmallestSubnormal = kSmallestNormal - mantissa_bits * kExponent;
  static constexpr int kInfinity = 255 * kExponent;
  static constexpr int kTopCode = ((1 << exponent_bits) * kExponent) - kUlp;
  static constexpr int kOverflow =
      specials == Specials::ieee ? kTopCode + kUlp - kExponent : kTopCode;         // infinity or NaN
  static constexpr int kNan = kBits == 16 ? kOverflow + kExponent / 2 : kTopCode;  // PyTorch's choices

  static Floats decode(Words code) {
    const Words magnitude = (code & ~kSign) >> kAlign;
    // As the mantissa of the smallest normal, less that normal: a subnormal finds its exponent.
    const Floats subnormal = as_floats(magnitude + kSmallestNormal) - as_floats(splat(kSmallestNormal));
    Words bits = magnitude < kExponent ? as_words(subnormal) : magnitude + kRebias;
    bits |= magnitude < kOverflow ? splat(0) : splat(kInfinity);  // infinity, or a NaN by its mantissa
    return as_floats(bits | (code & kSign));
  }

  static Words encode(Floats value) {
    const Words bits = as_words(value);
    const Words magnitude = bits & ~kSign;
    const Words odd = (magnitude >> (23 - mantissa_bits)) & 1;
    const Words normal = magnitude + (kUlp / 2 - 1 - kRebias) + odd;
    // Beside the float whose last bit is worth our smallest subnormal, the adder itself rounds to multiples of that.
    constexpr int kCoarse = kSmallestSubnormal + 23 * kExponent;
    const Words count = as_words(as_floats(magnitude) + as_floats(splat(kCoarse))) - kCoarse;
    Words code = magnitude < kSmallestNormal ? count << (23 - mantissa_bits) : normal;
    const Words most = splat(kOverflow);
    code = code < most ? code : most;
    if constexpr (kNan != kOverflow) code = magnitude > kInfinity ? splat(kNan) : code;
    return (code << kAlign) | (bits & kSign);
  }
};

}  // namespace
}  // namespace lanecast::host
