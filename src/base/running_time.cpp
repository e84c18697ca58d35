// SPDX-License-Identifier: Apache-2.0
#include "base/running_time.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace lanecast {
namespace {

using Clock = RunningTime::Clock;
using Seconds = std::chrono::duration<double>;

/// To ask for the processor time takes a microsecond, and some wait by looks of less.
constexpr auto kLooksApart = std::chrono::milliseconds(5);

/// Of one wait: who is stopped more often has its oldest stops counted.
constexpr std::size_t kRemembered = 256;

Clock::duration worked_so_far() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

void RunningTime::look(double timeout_s) {
  const auto now = Clock::now();
  if (now - last_.at < std::min<Seconds>(kLooksApart, Seconds(timeout_s / 32))) return;
  look({now, worked_so_far()}, timeout_s);
}

void RunningTime::look(const Reading& now, double timeout_s) {
  const auto counts = std::chrono::duration_cast<Clock::duration>(Seconds(std::min(1.0, timeout_s / 8)));
  const auto lost = (now.at - last_.at) - (now.worked - last_.worked) - counts;
  const bool is_first = last_.at == Clock::time_point{};
  last_ = now;
  if (is_first || lost <= Clock::duration::zero()) return;
  if (stops_.size() == kRemembered) stops_.erase(stops_.begin());
  stops_.push_back({now.at, lost});
}

Clock::duration RunningTime::since(Clock::time_point then, Clock::time_point now) const {
  Clock::duration ran = now - then;
  for (auto stop = stops_.rbegin(); stop != stops_.rend() && stop->end > then; ++stop)
    ran -= std::min(stop->lost, stop->end - then);  // what began before then is lost from then on
  return std::max(ran, Clock::duration::zero());
}

double RunningTime::seconds_of(double age_s) const {
  if (!std::isfinite(age_s)) return age_s;
  const auto now = Clock::now();
  return seconds_since(now - std::chrono::duration_cast<Clock::duration>(Seconds(age_s)), now);
}

}  // namespace lanecast
