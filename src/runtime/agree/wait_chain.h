// SPDX-License-Identifier: Apache-2.0
// Who keeps a rank waiting in the end: it waits for a peer, which may itself wait for another, and so on.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/running_time.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// Who waits for whom is followed from this part of the deadline on, early enough to have asked from rank to rank where
/// the transports have to.
inline constexpr double kAskFrom = 0.25;

/// "rank 1, 2"
std::string names_of(std::span<const int> ranks);

/// A rank that wants to know.
struct Waiter {
  int rank, size;
  std::span<const int> awaited;
  double silent_s;         // who has not said for so long that it waits is no longer thought to wait
  const RunningTime& ran;  // the waiter's: while it was stopped it could not hear who waits
};

/// A wait against its deadline.
struct LateWait {
  int rank;
  std::span<const int> awaited;
  double waited_s, timeout_s;  // without progress, while this process ran
  const RunningTime& ran;
  std::function<std::string()> what;  // it waits in, for people
};

/// Throws TimeoutError when the deadline is over, with the awaited ranks and the shortest way from them to one that
/// does not wait itself. One that has been asked and may yet answer is waited for a little longer.
void end_at_deadline(Router& router, const LateWait& wait);

/// Does the waiter wait for `rank`, by itself or through others that say that they wait?
bool waits_for(Router& router, const Waiter& waiter, int rank);

}  // namespace lanecast
