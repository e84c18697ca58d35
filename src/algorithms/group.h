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

inline void append(Pieces& to, const Pieces& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace lanecast
