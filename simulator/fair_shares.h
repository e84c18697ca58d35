// SPDX-License-Identifier: Apache-2.0
// How fast messages go that share links: max-min fair, as SimGrid's model CM02 has it. Only what a change can reach is
// computed again: most links are never full, and what they carry does not slow anything else down. Where hundreds share
// a link, as between groups of nodes, their shares are held until together they are off by a part that hardly counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "routes.h"

namespace lanecast::simulator {

class FairShares {
 public:
  explicit FairShares(const std::vector<double>& capacities_Bps);

  /// A flow has no rate before the next settle(). Numbers are used again.
  std::uint32_t add(const Route& route);
  void remove(std::uint32_t flow);
  double rate_Bps(std::uint32_t flow) const { return flows_[flow].rate_Bps; }
  /// After flows have come and gone. Returns those whose rate is another than before.
  std::span<const std::uint32_t> settle();

 private:
  struct Flow {
    Route route;
    std::array<std::uint32_t, Route::kMostLinks> place{};  // in Link::flows
    double weight = 0;                                     // of its share of a link
    double bound_Bps = 0;                                  // of the slowest link, if it had that for itself
    double rate_Bps = 0;
    std::uint32_t seen = 0;  // in which settle()
    bool is_fixed = false;
  };
  struct Use {
    std::uint32_t flow;
    std::uint32_t hop;  // in Flow::route
  };
  struct Link {
    double capacity_Bps = 0;
    double wanted_Bps = 0;  // what its flows would take if they had it for themselves
    std::vector<Use> flows;
    bool was_full = false, is_changed = false;
    std::uint32_t seen = 0;
    double used_Bps = 0;
    // When its flows were last given their shares: the level at which it was full, and what all of them took.
    double held_level = 0, held_Bps = 0;
    // While rates are handed out:
    double left_Bps = 0, left_weight = 0;
    std::uint32_t left_flows = 0;

    bool may_be_full() const;
    /// So many flows share it that one more or less is not worth a look at all of them.
    bool is_held() const;
    bool is_out_of_hold() const;
    double level() const { return left_Bps / left_weight; }
  };
  struct Level {
    double level;  // rate for each weight at which something is full
    std::uint32_t which;
    bool operator>(const Level& other) const {
      return level != other.level ? level > other.level : which > other.which;
    }
  };

  /// Flows that are as fast as they may be at the same level, whatever the links are.
  struct Bounded {
    double level = 0;
    std::vector<std::uint32_t> flows;
  };

  void note_change(int link);
  /// At least those on links whose shares were held too long.
  bool reach_out_of_hold();
  void spread_reach();
  void reach(std::uint32_t flow);
  void find_reached();
  void bound(std::uint32_t flow);
  void fill_links(double below);
  void hand_out();
  void give_shares();
  void fix(std::uint32_t flow, double rate_Bps);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_, begun_, reached_, full_, changed_;
  std::vector<int> changed_links_, held_;
  std::vector<Level> by_level_;
  std::vector<Bounded> bounded_;  // the first `bounds_` of them, which are few: rates and latencies of links are
  std::size_t bounds_ = 0;
  std::vector<double> rates_before_;
  std::uint32_t round_ = 0;
};

}  // namespace lanecast::simulator
