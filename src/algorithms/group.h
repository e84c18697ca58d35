// SPDX-License-Identifier: Apache-2.0
// Small words that the algorithms share.
#pragma once

#include <algorithm>

#include "plan/writer.h"

namespace lanecast {

/// Position of `rank` among `ranks`.
inline int index_of(int rank, const Ranks& ranks) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// Steps around a circle of n, also backwards.
inline int wrap(int k, int n) { return (k % n + n) % n; }

/// Do shares of neighbours lie apart in the vector, as those of a lane do? Then no order of exchanges joins them, and
/// the farthest may exchange first, while they have little: networks have the least bandwidth between far nodes.
inline bool lie_apart(const PieceLists& own) {
  if (own.size() < 2 || own[0].empty() || own[1].empty()) return false;
  const Piece &last = own[0].back(), &next = own[1].front();
  const bool follow =
      last.part == next.part ? last.hi == next.lo : last.part + 1 == next.part && last.hi == kOne && next.lo == kZero;
  return !follow;
}

inline void append(Pieces& to, const Pieces& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace lanecast
