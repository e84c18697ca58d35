// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/link_timer.h"

#include <algorithm>
#include <cmath>

namespace lanecast {
namespace {

constexpr double kStep = 1.25;
constexpr double kLeast = 1e-15;  // below any time of a message or a byte: a logarithm needs more than 0

// What disturbs a message only ever makes it slower, so of several the fastest counts.
constexpr int kFewest = 10, kMost = 40;
constexpr double kShortBudget_s = 10e-3;
// A link that takes longer is slow beside what disturbs it, and is timed once.
constexpr double kRepeatBudget_s = 40e-3;
constexpr int kRepeats = 3;

double timed(LinkProbe& probe, int messages, std::size_t bytes) {
  const double begun = probe.now_s();
  probe.volley(messages, bytes);
  return probe.now_s() - begun;
}

double fastest(LinkProbe& probe, int messages) {
  const double begun = probe.now_s();
  double least = timed(probe, messages, LinkProbe::kShortBytes);
  for (int k = 1; k < kMost && (k < kFewest || probe.now_s() - begun < kShortBudget_s); ++k)
    least = std::min(least, timed(probe, messages, LinkProbe::kShortBytes));
  return least;
}

/// Of long messages, beyond what a shaper lets through in a burst: 1, 2 and 4 MiB go before the 8 that count. One at a
/// time, as calls have them on a wire, where two would slow each other down.
double beta_of(LinkProbe& probe, double there_and_back_s, double budget_s) {
  const double begun = probe.now_s();
  std::size_t bytes = std::size_t{1} << 20;
  double last = timed(probe, 1, bytes);
  while (bytes < LinkProbe::kLongBytes && probe.now_s() - begun + 2 * last <= budget_s)
    last = timed(probe, 1, bytes *= 2);
  const double whole = std::max(last - there_and_back_s, 0.0) / static_cast<double>(bytes);
  if (bytes < LinkProbe::kLongBytes || (1.5 * kRepeats) * last > std::min(kRepeatBudget_s, budget_s)) return whole;
  // What a long message costs before its bytes move goes by the difference of two lengths.
  double all = last, half = last;
  for (int k = 0; k < kRepeats; ++k) {
    half = std::min(half, timed(probe, 1, bytes / 2));
    all = std::min(all, timed(probe, 1, bytes));
  }
  const double further = 2 * (all - half) / static_cast<double>(bytes);
  const double least = all / static_cast<double>(bytes) / 2;  // less is noise of the shorter one
  return std::max(further, least);
}

}  // namespace

LinkSteps time_link(LinkProbe& probe, double budget_s) {
  static_cast<void>(timed(probe, LinkProbe::kMostMessages, LinkProbe::kShortBytes));  // what is opened by a first one
  const double there_and_back_s = fastest(probe, 0);
  const double gap_s = (fastest(probe, LinkProbe::kMostMessages) - there_and_back_s) / LinkProbe::kMostMessages;
  const double beta = beta_of(probe, there_and_back_s, budget_s);
  const double alpha_s = there_and_back_s / 2;
  return {step_of(alpha_s), step_of(beta), step_of(std::clamp(gap_s, alpha_s / 64, alpha_s))};
}

int step_of(double value) { return static_cast<int>(std::lround(std::log(std::max(value, kLeast)) / std::log(kStep))); }

double value_of(int step) {
  double value = 1;
  for (; step > 0; --step) value *= kStep;
  for (; step < 0; ++step) value /= kStep;
  return value;
}

}  // namespace lanecast
