// SPDX-License-Identifier: Apache-2.0
// When something simulated happens. What lies at one moment keeps the order in which it was made.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace lanecast::simulator {

struct Moment {
  double at_s;
  std::uint64_t order;
  friend bool operator>(const Moment& a, const Moment& b) {
    return a.at_s != b.at_s ? a.at_s > b.at_s : a.order > b.order;
  }
};

/// Of things at moments, the soonest on top.
template <class Entry>
using Soonest = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

}  // namespace lanecast::simulator
