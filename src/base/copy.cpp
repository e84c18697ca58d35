// SPDX-License-Identifier: Apache-2.0
#include "base/copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lanecast {

#if defined(__x86_64__)

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores stores) {
  if (stores == Stores::ordinary) {
    std::memcpy(to, from, bytes);
    return;
  }
  // Whole lines past the cache, the ragged ends through it.
  constexpr std::size_t kLine = 64;
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  const std::size_t body = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, head);
  for (std::size_t i = head; i < head + body; i += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  std::memcpy(to + head + body, from + head + body, bytes - head - body);
}

void wait_for_stores(Stores stores) {
  if (stores == Stores::bypassing) _mm_sfence();
}

#else

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores) { std::memcpy(to, from, bytes); }

void wait_for_stores(Stores) {}

#endif

}  // namespace lanecast
