// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/timed_trials.h"

#include <algorithm>
#include <limits>

namespace lanecast {

bool TimedTrials::have_run(const SizeClass& what) const {
  const auto found = times_.find(what);
  if (found == times_.end()) return true;
  return std::ranges::all_of(found->second, [](const Times& times) {
    return std::ranges::all_of(times, [](const auto& each) { return each.second.passed(); });
  });
}

Trials::Way TimedTrials::settle(const SizeClass& what, const Bootstrap& bootstrap) {
  Trials::Seconds mine{};
  for (std::size_t way = 0; way < Trials::kWays; ++way) {
    // The shortest: others have waited for ranks that came late.
    mine[way] = std::numeric_limits<double>::max();
    for (const auto& [begin, end] : times_[what][way]) mine[way] = std::min(mine[way], end.seconds_since(begin));
  }
  times_.erase(what);
  std::vector<Trials::Seconds> all(static_cast<std::size_t>(bootstrap.size));
  bootstrap.all_gather(&mine, all.data(), sizeof mine);
  Trials::Seconds slowest{};  // a call has ended when its last rank's part has
  for (const Trials::Seconds& each : all)
    for (std::size_t way = 0; way < Trials::kWays; ++way) slowest[way] = std::max(slowest[way], each[way]);
  trials_.settle(what, slowest);
  return Trials::faster(slowest);
}

}  // namespace lanecast
