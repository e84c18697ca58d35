// SPDX-License-Identifier: Apache-2.0
#include "fair_shares.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lanecast::simulator {
namespace {

constexpr double kRounding = 1e-9;       // relative: sums of rates that come and go
constexpr std::size_t kManyFlows = 200;  // on one link
constexpr double kHold = 0.01;           // of a link's rate: so far its flows may be from what they should take

bool is_less(double a, double b) { return a < b * (1 - kRounding); }

}  // namespace

FairShares::FairShares(const std::vector<double>& capacities_Bps) : links_(capacities_Bps.size()) {
  for (std::size_t k = 0; k < links_.size(); ++k) links_[k].capacity_Bps = capacities_Bps[k];
}

bool FairShares::Link::may_be_full() const { return wanted_Bps > capacity_Bps * (1 + kRounding); }

bool FairShares::Link::has_many() const { return flows.size() >= kManyFlows && may_be_full(); }

bool FairShares::Link::is_out_of_hold() const { return std::abs(used_Bps - held_Bps) > kHold * capacity_Bps; }

void FairShares::await(std::uint32_t number) {
  if (std::exchange(links_[number].is_awaited, true)) return;
  awaited_.push_back(number);
}

void FairShares::touch(std::uint32_t number) {
  if (!std::exchange(flows_[number].is_touched, true)) touched_.push_back(number);
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
    await(static_cast<std::uint32_t>(route.links[hop]));
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
    await(static_cast<std::uint32_t>(flow.route.links[hop]));
  }
  free_.push_back(number);
}

/// What all but this hop's link offer.
double FairShares::level_without(const Flow& flow, std::uint32_t hop) const {
  double level = flow.bound_Bps / flow.weight;
  for (std::uint32_t other = 0; other < flow.route.count; ++other)
    if (other != hop) level = std::min(level, links_[flow.route.links[other]].level);
  return level;
}

/// All rates rise together, each by its weight, until the link is full or other links let none rise any more.
double FairShares::fair_level(const Link& link) {
  if (!link.may_be_full()) return kNotFull;
  offers_.clear();
  double left_Bps = link.capacity_Bps, weight = 0;
  for (const Use& use : link.flows) {
    const Flow& flow = flows_[use.flow];
    offers_.push_back({level_without(flow, use.hop), flow.weight});
    weight += flow.weight;
  }
  while (!offers_.empty()) {
    const double level = left_Bps / weight;
    const auto [first, last] =
        std::ranges::partition(offers_, [&](const Offer& offer) { return offer.level >= level; });
    if (first == last) return level;
    for (auto low = first; low != last; ++low) {
      left_Bps -= low->level * low->weight;
      weight -= low->weight;
    }
    offers_.erase(first, last);
  }
  return kNotFull;
}

/// Another of the flow's links had this level before. Those are told that then give others more or less.
void FairShares::tell_other_links(const Use& use, double before) {
  const Flow& flow = flows_[use.flow];
  const double now = links_[flow.route.links[use.hop]].level;
  for (std::uint32_t hop = 0; hop < flow.route.count; ++hop) {
    const auto number = static_cast<std::uint32_t>(flow.route.links[hop]);
    const Link& link = links_[number];
    if (hop == use.hop || link.is_awaited || !link.may_be_full()) continue;
    double rest = flow.bound_Bps / flow.weight;
    for (std::uint32_t other = 0; other < flow.route.count; ++other)
      if (other != hop && other != use.hop) rest = std::min(rest, links_[flow.route.links[other]].level);
    const double offer = std::min(rest, now), offer_before = std::min(rest, before);
    if (offer != offer_before && is_less(std::min(offer, offer_before), link.level)) await(number);
  }
}

void FairShares::set_level(Link& link, double level) {
  const double before = std::exchange(link.level, level);
  if (before == level || (!is_less(before, level) && !is_less(level, before))) return;
  for (const Use& use : link.flows) {
    touch(use.flow);
    tell_other_links(use, before);
  }
}

void FairShares::settle_links() {
  for (; !awaited_.empty(); awaited_.pop_front()) {
    const std::uint32_t number = awaited_.front();
    Link& link = links_[number];
    link.is_awaited = false;
    if (link.is_held()) {
      held_.push_back(number);
      continue;
    }
    link.is_known = false;
    set_level(link, fair_level(link));
    if (link.has_many()) shared_.push_back(number);
  }
}

void FairShares::give_rates() {
  for (const std::uint32_t number : touched_) {
    Flow& flow = flows_[number];
    flow.is_touched = false;
    const double level = level_without(flow, Route::kMostLinks);
    const double before_Bps = std::exchange(flow.rate_Bps, level * flow.weight);
    for (const int link : flow.route.all()) links_[link].used_Bps += flow.rate_Bps - before_Bps;
    if (std::abs(flow.rate_Bps - before_Bps) > kRounding * before_Bps) changed_.push_back(number);
  }
  touched_.clear();
}

/// Those of many flows are held from now on: not before, since what others give may have changed meanwhile.
void FairShares::begin_holds() {
  for (const std::uint32_t number : shared_) {
    links_[number].is_known = true;
    links_[number].held_Bps = links_[number].used_Bps;
  }
  shared_.clear();
}

/// Of those whose flows are too far from what they should take. Are there any?
bool FairShares::end_holds() {
  for (const std::uint32_t number : held_) {
    Link& link = links_[number];
    if (!link.is_held() || !link.is_out_of_hold()) continue;
    link.is_known = false;
    await(number);
  }
  held_.clear();
  return !awaited_.empty();
}

std::span<const std::uint32_t> FairShares::settle() {
  changed_.clear();
  do {
    settle_links();
    // After those that it slows down: what ends at one moment is told in this order, and who hears first goes first.
    for (const std::uint32_t flow : begun_) touch(flow);
    begun_.clear();
    give_rates();
    begin_holds();
  } while (end_holds());
  return changed_;
}

}  // namespace lanecast::simulator
