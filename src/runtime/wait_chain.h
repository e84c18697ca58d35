// SPDX-License-Identifier: Apache-2.0
// Who keeps a rank waiting in the end: it waits for a peer, which may itself wait for another, and so on.
#pragma once

#include <span>
#include <string>

#include "runtime/router.h"

namespace lanecast {

/// Who waits for whom is followed from this part of the deadline on, early enough to have asked from rank to rank where
/// the transports have to.
inline constexpr double kAskFrom = 0.25;

/// A rank that wants to know.
struct Waiter {
  int rank, size;
  std::span<const int> awaited;
  double silent_s;  // who has not said for so long that it waits is no longer thought to wait
};

struct WaitChain {
  /// "rank 1 waits for rank 3, which has not answered": the shortest way to a rank that does not wait itself. Empty
  /// where no such rank can be seen from here, and where it is the one awaited rank.
  std::string text;
  bool open = false;  // some rank has been asked and may yet answer
};

WaitChain wait_chain(Router& router, const Waiter& waiter);

/// Does the waiter wait for `rank`, by itself or through others that say that they wait?
bool waits_for(Router& router, const Waiter& waiter, int rank);

}  // namespace lanecast
