// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/copy_in.h"

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
  const bool timed = copies_ % kTimeEvery == 0 || pace(stores).cost() == 0;
  const std::int64_t begin = timed ? clock_ns(bytes) : 0;
  from.gather(to, bytes, stores);
  wait_for_stores(timed ? Stores::bypassing : stores);
  if (timed) pace(stores).learn(clock_ns(bytes) - begin, bytes);
}

Stores CopyIn::better() const {
  const double ordinary = pace(Stores::ordinary).cost(), bypassing = pace(Stores::bypassing).cost();
  return bypassing > 0 && ordinary > kClearlyWorse * bypassing ? Stores::bypassing : Stores::ordinary;
}

Stores CopyIn::choose() {
  const Stores better = this->better();
  const Stores other = better == Stores::ordinary ? Stores::bypassing : Stores::ordinary;
  const bool retry = ++copies_ % kRetryEvery == 0;
  return retry || pace(other).cost() == 0 ? other : better;
}

#else

Stores CopyIn::better() const { return Stores::ordinary; }

void CopyIn::gather(SpanCursor& from, std::byte* to, std::size_t bytes) { from.gather(to, bytes); }

#endif

}  // namespace lanecast::shm
