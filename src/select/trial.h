// SPDX-License-Identifier: Apache-2.0
// Two ways to run calls of a size, of which nobody has timed one here: the first calls take them in turns, and later
// ones what was faster.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <optional>

#include "select/peer_engines.h"

namespace lanecast {

/// Calls that take about as long.
struct SizeClass {
  Kind kind{};
  int log2_bytes = 0;  // of the full buffer
  bool half = false, symmetric = false;
  auto operator<=>(const SizeClass&) const = default;
};
SizeClass size_class_of(const PeerTraffic& traffic);

/// Equal on all ranks, since it counts calls, and what was faster is settled by times of all.
class Trials {
 public:
  enum class Way : std::uint8_t { ours, nccls };
  static constexpr std::size_t kWays = 2;
  /// The shortest of a class, the same on all ranks.
  using Seconds = std::array<double, kWays>;

  struct TrialTurn {
    Way way = Way::ours;
    bool timed = false;    // the call's time counts
    bool settles = false;  // first settle(): all that count have been made
  };
  /// Of the next call of the class.
  TrialTurn next(const SizeClass& what);
  void settle(const SizeClass& what, const Seconds& seconds) { settled_[what] = seconds; }
  /// None before it is settled.
  std::optional<Seconds> settled(const SizeClass& what) const;
  static Way faster(const Seconds& seconds) { return seconds[0] <= seconds[1] ? Way::ours : Way::nccls; }

 private:
  static constexpr int kWarm = 1, kTimed = 3;  // calls of each way

  std::map<SizeClass, int> calls_;
  std::map<SizeClass, Seconds> settled_;
};

}  // namespace lanecast
