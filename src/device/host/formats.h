// SPDX-License-Identifier: Apache-2.0
// How the elements of each type come out of memory into vectors of values, and go back.
//
// One vector of memory holds `kVectors` vectors of values, each a `Value` of `Element`s. Which of them an element ends
// up in is the format's own affair. What is stored holds no NaN but the positive quiet one without payload.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "device/host/small_floats.h"

namespace lanecast::host {
namespace {

/// Elements whose arithmetic runs in their own type.
template <class T>
struct Plain {
  static constexpr int kVectors = 1;
  using Element = T;
  using Value = Vector<T>;
  static void load(const std::byte* from, Value* values) { values[0] = host::load<Value>(from); }
  static void store(std::byte* to, const Value* values) { host::store(to, values[0]); }
};

/// 16- and 8-bit floats, whose arithmetic runs in fp32. Each 32-bit word of memory holds two or four codes; the j-th
/// codes of all words make the j-th vector, so that no value ever changes its lane.
template <class Codec>
struct Narrow {
  static constexpr int kVectors = 32 / Codec::kBits;
  using Element = float;
  using Value = Floats;
  static void load(const std::byte* from, Value* values) {
    const auto words = host::load<Words>(from);
    for (int j = 0; j < kVectors; ++j) values[j] = Codec::decode((words << shift(j)) & kCode);
  }
  static void store(std::byte* to, const Value* values) {
    Unsigned words{};
    for (int j = 0; j < kVectors; ++j)
      words |= reinterpret_cast<Unsigned>(Codec::encode(values[j]) & kCode) >> shift(j);
    host::store(to, words);
  }

 private:
  using Unsigned = Vector<std::uint32_t>;
  static constexpr int kCode = -(1 << (32 - Codec::kBits));  // where a code lies in its lane
  static constexpr int shift(int j) { return (kVectors - 1 - j) * Codec::kBits; }
};

using BFloat16 = Narrow<BFloat16Codec>;
using Float8E4M3 = Narrow<SmallFloatCodec<4, 3, Specials::nan_only>>;
using Float8E5M2 = Narrow<SmallFloatCodec<5, 2, Specials::ieee>>;

#if defined(__F16C__) || defined(__aarch64__)
/// By the CPU's own conversion, which rounds as the codec does.
struct Float16 {
  static constexpr int kVectors = 2;
  using Element = float;
  using Value = Floats;
  static void load(const std::byte* from, Value* values) {
    for (int j = 0; j < kVectors; ++j) values[j] = widen(host::load<Half>(from + j * sizeof(Half)));
  }
  static void store(std::byte* to, const Value* values) {
    for (int j = 0; j < kVectors; ++j) host::store(to + j * sizeof(Half), narrow(values[j]));
  }

 private:
#if defined(__aarch64__)
  using Half = float16x4_t;
  static Floats widen(Half codes) { return vcvt_f32_f16(codes); }
  static Half narrow(Floats value) { return vcvt_f16_f32(value); }
#else
  using Half = Vector<long long, kVectorBytes / 2>;  // the type beneath __m128i
  static constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  static Floats widen(Half codes) { return _mm256_cvtph_ps(codes); }
  static Half narrow(Floats value) { return _mm256_cvtps_ph(value, kToNearest); }
#endif
};
#else
using Float16 = Narrow<SmallFloatCodec<5, 10, Specials::ieee>>;
#endif

}  // namespace
}  // namespace lanecast::host
