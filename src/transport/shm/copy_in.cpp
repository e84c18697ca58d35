// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/copy_in.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lanecast::shm {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLeastBytes = 1 << 10;  // shorter copies would wait longer for memory than they gain
constexpr unsigned kTimeEvery = 16;           // copies; the clock has to wait for the stores, others need not
constexpr unsigned kRetryEvery = 1024;        // copies; a retry of the worse store may cost as much as twenty others
constexpr double kClearlyWorse = 2;           // between near cores the two differ by less

}  // namespace

void CopyIn::gather(SpanCursor& from, std::byte* to, std::size_t bytes) {
  if (bytes < kLeastBytes) return from.gather(to, bytes);
  const Stores stores = choose();
  const bool timed = copies_ % kTimeEvery == 0 || cost(stores) == 0;
  const std::uint64_t begin = timed ? __rdtsc() : 0;
  from.gather(to, bytes, stores);
  wait_for_stores(timed ? Stores::bypassing : stores);
  if (timed) learn(stores, static_cast<double>(__rdtsc() - begin) / static_cast<double>(bytes));
}

Stores CopyIn::choose() {
  const Stores better =
      cost(Stores::ordinary) > kClearlyWorse * cost(Stores::bypassing) ? Stores::bypassing : Stores::ordinary;
  const Stores other = better == Stores::ordinary ? Stores::bypassing : Stores::ordinary;
  const bool retry = ++copies_ % kRetryEvery == 0;
  return retry || cost(other) == 0 ? other : better;
}

void CopyIn::learn(Stores used, double ticks_per_byte) {
  double& known = cost(used);
  // A fast copy is proof; a slow one may have been interrupted, and only a row of them counts.
  const bool proof = known == 0 || ticks_per_byte < known;
  known = proof ? ticks_per_byte : 0.75 * known + 0.25 * std::min(ticks_per_byte, 4 * known);
}

#else

void CopyIn::gather(SpanCursor& from, std::byte* to, std::size_t bytes) { from.gather(to, bytes); }

#endif

}  // namespace lanecast::shm
