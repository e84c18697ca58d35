// SPDX-License-Identifier: Apache-2.0
#include "base/copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lanecast {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLine = 64;

constexpr std::size_t kPage = 4096;

template <Stores stores>
void copy_line(std::byte* to, const std::byte* from) {
  __m128i parts[kLine / sizeof(__m128i)];
  for (std::size_t i = 0; i < std::size(parts); ++i)
    parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    __m128i* const part = reinterpret_cast<__m128i*>(to) + i;
    stores == Stores::bypassing ? _mm_stream_si128(part, parts[i]) : _mm_store_si128(part, parts[i]);
  }
}

/// Whole lines of the target in a loop, the ragged ends by the library.
template <Stores stores>
void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  const std::size_t end = head + (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  for (std::size_t i = head; i < end; i += kLine) copy_line<stores>(to + i, from + i);
  std::memcpy(to + end, from + end, bytes - end);
}

/// How much longer the library takes than a loop does, for a target 16 bytes behind its source within their pages.
double times_of_the_loop() {
  constexpr std::size_t kBytes = 8 * kPage, kBehind = 16;
  std::vector<std::byte> memory(2 * kBytes + 3 * kPage);
  std::byte* const from = memory.data() + -reinterpret_cast<std::uintptr_t>(memory.data()) % kPage;
  std::byte* const to = from + kBytes + kPage + kBehind;
  const auto least = [&](auto copy) {
    using Clock = std::chrono::steady_clock;
    auto least = Clock::duration::max();
    for (int trial = 0; trial < 8; ++trial) {  // what disturbs one spares another
      const auto begin = Clock::now();
      copy(to, from, kBytes);
      asm volatile("" : : "r"(to) : "memory");  // nobody reads it, and it is to be written all the same
      least = std::min(least, Clock::now() - begin);
    }
    return std::chrono::duration<double>(least).count();
  };
  const double loop_s = least(copy_lines<Stores::ordinary>);
  return least([](std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }) / loop_s;
}

/// From 2 KiB on glibc copies by `rep movsb` where the CPU calls that fast. On Zen 3 it is, but for targets that lie 1
/// to 31 bytes behind the source within their pages: there 32 KiB take 11 to 18 us instead of 0.7 (glibc 2.36). Xeons
/// take 0.9 us there, and a loop 2.6, so it is timed once, in some 0.1 ms.
bool library_stumbles(const std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLeastBytes = 2048;
  constexpr double kStumbles = 2;
  const std::size_t behind = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % kPage;
  if (bytes < kLeastBytes || behind < 1 || behind > 31) return false;
  static const bool stumbles = times_of_the_loop() > kStumbles;
  return stumbles;
}

}  // namespace

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) {
  if (stores == Stores::bypassing)
    copy_lines<Stores::bypassing>(to, from, bytes);
  else if (library_stumbles(to, from, bytes))
    copy_lines<Stores::ordinary>(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void wait_for_stores(Stores stores) {
  if (stores == Stores::bypassing) _mm_sfence();
}

#else

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores) { std::memcpy(to, from, bytes); }

void wait_for_stores(Stores) {}

#endif

}  // namespace lanecast
