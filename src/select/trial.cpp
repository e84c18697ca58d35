// SPDX-License-Identifier: Apache-2.0
#include "select/trial.h"

#include <bit>

namespace lanecast {

SizeClass size_class_of(const PeerTraffic& traffic) {
  return {traffic.kind, static_cast<int>(std::bit_width(traffic.bytes)), traffic.half, traffic.symmetric};
}

Trials::TrialTurn Trials::next(const SizeClass& what) {
  if (const auto seconds = settled(what)) return {faster(*seconds)};
  const int call = calls_[what]++;
  if (call == static_cast<int>(kWays) * (kWarm + kTimed)) return {.settles = true};
  return {static_cast<Way>(call % static_cast<int>(kWays)), call >= static_cast<int>(kWays) * kWarm};
}

std::optional<Trials::Seconds> Trials::settled(const SizeClass& what) const {
  const auto found = settled_.find(what);
  return found == settled_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lanecast
