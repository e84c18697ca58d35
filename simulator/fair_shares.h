// SPDX-License-Identifier: Apache-2.0
// How fast messages go that share links: max-min fair, as SimGrid's model CM02 has it. A link that a message has come
// to or left is computed again, and from it only those whose messages this makes faster or slower. Where hundreds share
// a link, as between groups of nodes, their shares are held until together they are off by a part that hardly counts.
// Where tens of thousands join links, or changes are felt everywhere, those of all links are, until half are gone.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "routes.h"

namespace lanecast::simulator {

class FairShares {
 public:
  explicit FairShares(const std::vector<double>& capacities_Bps);

  /// A flow has no rate before the next settle(). Numbers are used again.
  std::uint32_t add(const Route& route);
  void remove(std::uint32_t number);
  double rate_Bps(std::uint32_t flow) const { return flows_[flow].rate_Bps; }
  /// After flows have come and gone. Returns those whose rate is another than before.
  std::span<const std::uint32_t> settle();

 private:
  static constexpr double kNotFull = std::numeric_limits<double>::infinity();

  /// What many flows have in common.
  struct FlowKind {
    double weight;       // of its share of a link
    double bound_Bps;    // of the slowest link, if it had that for itself
    double bound_level;  // the same, for each weight
  };
  // Looking at hundreds of thousands of flows is what takes the time: what is looked at lies densely.
  struct Flow {
    std::array<std::uint32_t, Route::kMostLinks> links{};  // filled up with one that is never full
    std::uint32_t kind = 0, hops = 0;
    double rate_Bps = 0;
  };
  /// A flow, as one of its links sees it.
  struct Use {
    std::uint32_t flow;
    std::uint16_t kind, hop;                                  // hop: in Flow::links
    std::array<std::uint32_t, Route::kMostLinks - 1> others;  // of its links
  };
  struct Link {
    double capacity_Bps = 0;
    double wanted_Bps = 0;    // what its flows would take if they had it for themselves
    double held_Bps = 0;      // what was used when many flows were last given their shares
    bool is_known = false;    // the level of many flows, which is held
    bool is_awaited = false;  // its level may be another
    std::vector<Use> flows;

    bool may_be_full() const;
  };
  struct Offer {
    double level, weight;
  };

  std::uint32_t kind_of(const Route& route);
  void await(std::uint32_t number);  // of a link
  void touch(std::uint32_t number);  // of a flow
  void allow_looks();
  void see_crowd();
  /// So many flows share it, or the network is so crowded, that one more or less is not worth a look at all of them.
  bool has_many(const Link& link) const;
  bool is_held(const Link& link) const { return link.is_known && has_many(link); }
  double fair_level(const Link& link);
  void set_level(std::uint32_t number, double level);
  void tell_other_links(const Use& use, double before, double now);
  void settle_links();
  void give_rates();
  void begin_holds();
  bool is_out_of_hold(std::uint32_t number) const;
  bool end_holds();

  std::vector<FlowKind> kinds_;
  // By flow.
  std::vector<Flow> flows_;
  std::vector<std::array<std::uint32_t, Route::kMostLinks>> places_;  // in Link::flows
  std::vector<std::uint8_t> is_touched_;
  // By link, and one more that is never full.
  std::vector<Link> links_;
  std::vector<double> levels_;         // the rate for each weight of its flows, where no other link gives less
  std::vector<std::uint8_t> is_deaf_;  // to what other links give: it is never full, or awaited already
  std::vector<double> used_Bps_;
  std::vector<std::uint32_t> free_, begun_, touched_, changed_, held_, shared_;
  std::deque<std::uint32_t> awaited_;  // links whose level may be another
  std::vector<Offer> offers_;          // to the flows of the link under way, by their other links
  std::int64_t looks_left_;            // at flows, before shares of all links are held
  bool is_crowded_ = false;            // they are
  std::size_t joining_ = 0;            // flows that have two links or more
  std::size_t crowd_ = 0;              // the most of those since shares are held
};

}  // namespace lanecast::simulator
