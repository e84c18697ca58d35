// SPDX-License-Identifier: Apache-2.0
#include "base/store_choice.h"

#include <bit>

namespace lanecast {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLeastBytes = 1 << 10;  // shorter ones would wait longer for memory than they gain
constexpr unsigned kFirst = 8;                // by either in turn: one of them may be interrupted, or meet new pages
constexpr unsigned kTimeEvery = 16;           // the clock has to wait for the stores, others need not
constexpr unsigned kRetryEvery = 1024;        // a retry of the worse store may cost as much as twenty others
constexpr double kClearlyWorse = 2;           // the reader gets what was written past the cache from memory

}  // namespace

double StoreChoice::ratio() const {
  const double bypassing = pace(Stores::bypassing).cost();
  return bypassing > 0 ? pace(Stores::ordinary).cost() / bypassing : 0;
}

StoreChoice::Way StoreChoice::choose(std::size_t bytes) {
  if (bytes < kLeastBytes) return {Stores::ordinary, false};
  ++writes_;
  if (writes_ <= kFirst) return {writes_ % 2 == 0 ? Stores::bypassing : Stores::ordinary, true};
  const bool bypasses = ratio() > kClearlyWorse;
  const bool retry = std::has_single_bit(writes_) || writes_ % kRetryEvery == 0;  // soon at first
  return {bypasses != retry ? Stores::bypassing : Stores::ordinary, retry || writes_ % kTimeEvery == 0};
}

#else

double StoreChoice::ratio() const { return 0; }

StoreChoice::Way StoreChoice::choose(std::size_t /*bytes*/) { return {Stores::ordinary, false}; }

#endif

}  // namespace lanecast
