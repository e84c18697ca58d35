// SPDX-License-Identifier: Apache-2.0
// How long messages between two ranks take, from times of a few of them; whatever carries them, and whatever tells the
// time.
#pragma once

#include <cstddef>

namespace lanecast {

/// One of the two ranks, with the other at its command.
class LinkProbe {
 public:
  virtual ~LinkProbe() = default;
  virtual double now_s() = 0;
  /// So many messages each way, all at once: up to kMostMessages of kShortBytes, or one of up to kLongBytes. Returns
  /// when the other has all, too: that takes a short message there and one back besides.
  virtual void volley(int messages, std::size_t bytes) = 0;

  static constexpr int kMostMessages = 8;
  static constexpr std::size_t kLongBytes = std::size_t{8} << 20;
  static constexpr std::size_t kShortBytes = 8;
};

/// In whole steps of a factor of 1.25, the same number on ranks that found nearly the same. Whole numbers, since ranks
/// on unlike machines need not have the same last bit of a logarithm.
struct LinkSteps {
  int alpha = 0, beta = 0, gap = 0;
};

/// Takes some tens of milliseconds, on slow links up to about `budget_s`.
LinkSteps time_link(LinkProbe& probe, double budget_s);

/// Of seconds, or seconds a byte; the same bits everywhere.
double value_of(int step);
int step_of(double value);

}  // namespace lanecast
