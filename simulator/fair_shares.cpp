// SPDX-License-Identifier: Apache-2.0
#include "fair_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace lanecast::simulator {
namespace {

constexpr double kRounding = 1e-9;       // relative: sums of rates that come and go
constexpr std::size_t kManyFlows = 200;  // on one link
constexpr double kHold = 0.01;           // of a link's rate: so far its flows may be from what they should take

}  // namespace

FairShares::FairShares(const std::vector<double>& capacities_Bps) : links_(capacities_Bps.size()) {
  for (std::size_t k = 0; k < links_.size(); ++k) links_[k].capacity_Bps = capacities_Bps[k];
}

bool FairShares::Link::may_be_full() const { return wanted_Bps > capacity_Bps * (1 + kRounding); }

bool FairShares::Link::is_held() const { return was_full && held_level > 0 && flows.size() >= kManyFlows; }

bool FairShares::Link::is_out_of_hold() const { return std::abs(used_Bps - held_Bps) > kHold * capacity_Bps; }

void FairShares::note_change(int link) {
  if (links_[link].is_changed) return;
  links_[link].is_changed = true;
  changed_links_.push_back(link);
}

std::uint32_t FairShares::add(const Route& route) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Flow& flow = flows_[number];
  flow.route = route;
  flow.rate_Bps = 0;
  // SimGrid's: shares fall with the latency, as TCP's do.
  flow.weight = route.latency_s > 0 ? 1 / route.latency_s : 1;
  flow.bound_Bps = links_[route.links[0]].capacity_Bps;
  for (const int link : route.all()) flow.bound_Bps = std::min(flow.bound_Bps, links_[link].capacity_Bps);
  for (std::uint32_t hop = 0; hop < route.count; ++hop) {
    Link& link = links_[route.links[hop]];
    flow.place[hop] = static_cast<std::uint32_t>(link.flows.size());
    link.flows.push_back({number, hop});
    link.wanted_Bps += flow.bound_Bps;
    note_change(route.links[hop]);
  }
  begun_.push_back(number);
  return number;
}

void FairShares::remove(std::uint32_t number) {
  Flow& flow = flows_[number];
  for (std::size_t hop = 0; hop < flow.route.count; ++hop) {
    Link& link = links_[flow.route.links[hop]];
    const Use last = link.flows.back();
    link.flows[flow.place[hop]] = last;
    flows_[last.flow].place[last.hop] = flow.place[hop];
    link.flows.pop_back();
    link.used_Bps = link.flows.empty() ? 0 : link.used_Bps - flow.rate_Bps;
    link.wanted_Bps = link.flows.empty() ? 0 : link.wanted_Bps - flow.bound_Bps;
    note_change(flow.route.links[hop]);
  }
  free_.push_back(number);
}

void FairShares::reach(std::uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.seen == round_) return;
  flow.seen = round_;
  flow.is_fixed = false;
  reached_.push_back(number);
}

void FairShares::find_reached() {
  ++round_;
  reached_.clear();
  full_.clear();
  for (const int number : changed_links_) {
    Link& link = links_[number];
    link.is_changed = false;
    const bool is_full = link.may_be_full(), was_full = std::exchange(link.was_full, is_full);
    if (!is_full) link.held_level = 0;
    if ((is_full || was_full) && !link.is_held())
      for (const Use& use : link.flows) reach(use.flow);
  }
  changed_links_.clear();
  for (const std::uint32_t flow : begun_) reach(flow);
  begun_.clear();
  spread_reach();
}

bool FairShares::reach_out_of_hold() {
  ++round_;
  reached_.clear();
  full_.clear();
  for (const int number : held_) {
    Link& link = links_[number];
    if (!link.is_held() || !link.is_out_of_hold()) continue;
    link.held_level = 0;
    for (const Use& use : link.flows) reach(use.flow);
  }
  spread_reach();
  return !reached_.empty();
}

void FairShares::spread_reach() {
  held_.clear();
  for (std::size_t k = 0; k < reached_.size(); ++k)
    for (const int number : flows_[reached_[k]].route.all()) {
      Link& link = links_[number];
      if (!link.was_full || link.seen == round_) continue;
      link.seen = round_;
      if (link.is_held()) {
        held_.push_back(number);
        continue;
      }
      full_.push_back(static_cast<std::uint32_t>(number));
      for (const Use& use : link.flows) reach(use.flow);
    }
}

void FairShares::fix(std::uint32_t number, double rate_Bps) {
  Flow& flow = flows_[number];
  flow.is_fixed = true;
  for (const int each : flow.route.all()) {
    Link& link = links_[each];
    link.used_Bps += rate_Bps - flow.rate_Bps;
    link.left_Bps -= rate_Bps;
    link.left_weight -= flow.weight;
    --link.left_flows;
  }
  flow.rate_Bps = rate_Bps;
}

void FairShares::bound(std::uint32_t number) {
  const Flow& flow = flows_[number];
  double level = flow.bound_Bps / flow.weight;
  for (const int each : flow.route.all())
    if (links_[each].is_held()) level = std::min(level, links_[each].held_level);
  std::size_t at = 0;
  while (at < bounds_ && bounded_[at].level != level) ++at;
  if (at == bounds_) {
    if (++bounds_ > bounded_.size()) bounded_.emplace_back();
    bounded_[at].level = level;
    bounded_[at].flows.clear();
  }
  bounded_[at].flows.push_back(number);
}

/// Gives their rates to the flows of all links that are full at a lower level.
void FairShares::fill_links(double below) {
  while (!by_level_.empty() && by_level_.front().level < below) {
    std::ranges::pop_heap(by_level_, std::greater<>());
    const Level lowest = by_level_.back();
    by_level_.pop_back();
    Link& link = links_[lowest.which];
    if (link.left_flows == 0) continue;
    // Others of its flows have been given their rates meanwhile: what is left for each of the rest has grown.
    if (const double level = link.level(); level > lowest.level * (1 + kRounding)) {
      by_level_.push_back({level, lowest.which});
      std::ranges::push_heap(by_level_, std::greater<>());
      continue;
    }
    link.held_level = lowest.level;
    for (const Use& use : link.flows)
      if (!flows_[use.flow].is_fixed) fix(use.flow, lowest.level * flows_[use.flow].weight);
  }
}

/// All rates rise together, each by its weight, until a link is full or a flow as fast as its slowest link alone.
void FairShares::hand_out() {
  by_level_.clear();
  bounds_ = 0;
  for (const std::uint32_t number : full_) {
    Link& link = links_[number];
    link.left_Bps = link.capacity_Bps;
    link.left_flows = static_cast<std::uint32_t>(link.flows.size());
    link.left_weight = 0;
    for (const Use& use : link.flows) link.left_weight += flows_[use.flow].weight;
    link.held_level = std::numeric_limits<double>::infinity();
    by_level_.push_back({link.level(), number});
  }
  std::ranges::make_heap(by_level_, std::greater<>());
  for (const std::uint32_t number : reached_) bound(number);
  std::ranges::sort(bounded_.begin(), bounded_.begin() + static_cast<std::ptrdiff_t>(bounds_), {}, &Bounded::level);
  for (const Bounded& bounded : std::span(bounded_.data(), bounds_)) {
    fill_links(bounded.level);
    for (const std::uint32_t number : bounded.flows)
      if (!flows_[number].is_fixed) fix(number, bounded.level * flows_[number].weight);
  }
}

std::span<const std::uint32_t> FairShares::settle() {
  changed_.clear();
  find_reached();
  give_shares();
  if (!held_.empty() && reach_out_of_hold()) give_shares();
  return changed_;
}

void FairShares::give_shares() {
  rates_before_.clear();
  for (const std::uint32_t flow : reached_) rates_before_.push_back(flows_[flow].rate_Bps);
  hand_out();
  for (const std::uint32_t number : full_) links_[number].held_Bps = links_[number].used_Bps;
  for (std::size_t k = 0; k < reached_.size(); ++k)
    if (std::abs(flows_[reached_[k]].rate_Bps - rates_before_[k]) > kRounding * rates_before_[k])
      changed_.push_back(reached_[k]);
}

}  // namespace lanecast::simulator
