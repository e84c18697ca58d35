// SPDX-License-Identifier: Apache-2.0
// Exact fractions of a part. Cuts of cuts compose exactly, on every rank alike, whatever the count bound later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/error.h"

namespace lanecast {

__extension__ typedef __int128 Wide;  // products of counts and fractions exceed 64 bits

struct Fraction {
  std::int32_t num = 0;
  std::int32_t den = 1;  // > 0, and num/den in lowest terms

  static Fraction of(std::int64_t num, std::int64_t den) {
    const std::int64_t divisor = std::gcd(num, den);
    num /= divisor;
    den /= divisor;
    if (num > INT32_MAX || den > INT32_MAX)
      throw UsageError("topology: cutting a part into more than 2^31 pieces; use fewer levels or fewer ranks a level");
    return {static_cast<std::int32_t>(num), static_cast<std::int32_t>(den)};
  }

  friend bool operator==(Fraction a, Fraction b) { return a.num == b.num && a.den == b.den; }
  friend bool operator<(Fraction a, Fraction b) {
    if (a.den == b.den) return a.num < b.num;
    return std::int64_t{a.num} * b.den < std::int64_t{b.num} * a.den;
  }
  friend bool operator<=(Fraction a, Fraction b) { return !(b < a); }

  std::string str() const { return den == 1 ? std::to_string(num) : std::to_string(num) + "/" + std::to_string(den); }
};

inline constexpr Fraction kZero{0, 1};
inline constexpr Fraction kOne{1, 1};

/// The point a/b of the way from lo to hi.
inline Fraction between(Fraction lo, Fraction hi, std::int64_t a, std::int64_t b) {
  if (a == 0) return lo;
  if (a == b) return hi;
  const Wide den = static_cast<Wide>(lo.den) * hi.den * b;
  const Wide num = static_cast<Wide>(lo.num) * hi.den * (b - a) + static_cast<Wide>(hi.num) * lo.den * a;
  Wide x = num, y = den;
  while (y != 0) {
    const Wide rest = x % y;
    x = y;
    y = rest;
  }
  if (den / x > INT32_MAX) return Fraction::of(INT64_MAX, 2);  // reports the overflow
  return {static_cast<std::int32_t>(num / x), static_cast<std::int32_t>(den / x)};
}

/// One of `count` equal slices of a part; a plan runs once per chunk.
struct Chunk {
  std::int32_t index = 0;
  std::int32_t count = 1;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Element at which `at` of a chunk lies, in a part of `elements`: floor((index + at) / count * elements).
inline std::size_t position(Fraction at, Chunk chunk, std::size_t elements) {
  const std::int64_t num = std::int64_t{chunk.index} * at.den + at.num;
  const std::int64_t den = std::int64_t{chunk.count} * at.den;
  if (num <= UINT32_MAX && elements <= UINT32_MAX) return static_cast<std::uint64_t>(num) * elements / den;  // usual
  return static_cast<std::size_t>(static_cast<Wide>(num) * elements / den);
}

}  // namespace lanecast
