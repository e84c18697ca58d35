// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/copy_in.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "transport/shm/lane.h"

namespace lanecast::shm {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLeastBytes = 1 << 10;  // shorter copies would wait longer for memory than they gain
constexpr unsigned kRetryEvery = 1024;        // copies; a retry of the worse store may cost as much as twenty others
constexpr double kClearlyWorse = 2;           // between near cores the two differ by less

/// Writes whole lines past the cache, the ragged ends through it.
void copy_bypassing(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, head);
  const std::size_t body = (bytes - head) / kLine * kLine;
  for (std::size_t i = head; i < head + body; i += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  std::memcpy(to + head + body, from + head + body, bytes - head - body);
}

}  // namespace

void CopyIn::gather(SpanCursor& from, std::byte* to, std::size_t bytes) {
  if (bytes < kLeastBytes) return from.gather(to, bytes);
  const Store store = choose();
  const std::uint64_t begin = __rdtsc();
  if (store == ordinary) {
    from.gather(to, bytes);
  } else {
    for (std::size_t done = 0; done < bytes;) {
      const Span piece = from.take(bytes - done);
      copy_bypassing(to + done, piece.data, piece.bytes);
      done += piece.bytes;
    }
  }
  // No release store waits for bypassing stores. Ordinary ones need no fence, but wait here for the sake of the clock.
  _mm_sfence();
  learn(store, static_cast<double>(__rdtsc() - begin) / static_cast<double>(bytes));
}

CopyIn::Store CopyIn::choose() {
  const Store better = cost_[ordinary] > kClearlyWorse * cost_[bypassing] ? bypassing : ordinary;
  const Store other = better == ordinary ? bypassing : ordinary;
  const bool retry = ++copies_ % kRetryEvery == 0;
  return retry || cost_[other] == 0 ? other : better;
}

void CopyIn::learn(Store used, double ticks_per_byte) {
  double& cost = cost_[used];
  // A fast copy is proof; a slow one may have been interrupted, and only a row of them counts.
  const bool proof = cost == 0 || ticks_per_byte < cost;
  cost = proof ? ticks_per_byte : 0.75 * cost + 0.25 * std::min(ticks_per_byte, 4 * cost);
}

#else

void CopyIn::gather(SpanCursor& from, std::byte* to, std::size_t bytes) { from.gather(to, bytes); }

#endif

}  // namespace lanecast::shm
