// SPDX-License-Identifier: Apache-2.0
#include "base/store_choice.h"

namespace lanecast {

#if defined(__x86_64__)

namespace {

constexpr std::size_t kLeastBytes = 1 << 10;  // shorter ones would wait longer for memory than they gain
constexpr unsigned kTimeEvery = 16;           // the clock has to wait for the stores, others need not
constexpr unsigned kRetryEvery = 1024;        // a retry of the worse store may cost as much as twenty others
constexpr double kClearlyWorse = 2;           // between near cores the two differ by less

}  // namespace

Stores StoreChoice::better() const {
  const double ordinary = pace(Stores::ordinary).cost(), bypassing = pace(Stores::bypassing).cost();
  return bypassing > 0 && ordinary > kClearlyWorse * bypassing ? Stores::bypassing : Stores::ordinary;
}

StoreChoice::Trial StoreChoice::choose(std::size_t bytes) {
  if (bytes < kLeastBytes) return {Stores::ordinary, false};
  const Stores better = this->better();
  const Stores other = better == Stores::ordinary ? Stores::bypassing : Stores::ordinary;
  const bool retry = ++writes_ % kRetryEvery == 0;
  const Stores stores = retry || pace(other).cost() == 0 ? other : better;
  return {stores, writes_ % kTimeEvery == 0 || pace(stores).cost() == 0};
}

#else

Stores StoreChoice::better() const { return Stores::ordinary; }

StoreChoice::Trial StoreChoice::choose(std::size_t /*bytes*/) { return {Stores::ordinary, false}; }

#endif

}  // namespace lanecast
