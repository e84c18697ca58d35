// SPDX-License-Identifier: Apache-2.0
#include "fair_shares.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lanecast::simulator {
namespace {

constexpr double kRounding = 1e-9;               // relative: sums of rates that come and go
constexpr std::size_t kManyFlows = 200;          // on one link
constexpr std::size_t kCrowd = 1 << 14;          // that join links; of 128 ranks that send to all others it is no crowd
constexpr double kHold = 0.01;                   // of a link's rate: so far its flows may be from what they should take
constexpr std::int64_t kLooks = 500;             // at flows, for each that comes or goes: most schedules take some ten
constexpr std::int64_t kMostLooks = 10'000'000;  // saved up: a tenth of a second

bool is_less(double a, double b) { return a < b * (1 - kRounding); }

}  // namespace

FairShares::FairShares(const std::vector<double>& capacities_Bps)
    : links_(capacities_Bps.size() + 1),
      levels_(links_.size(), kNotFull),
      is_deaf_(links_.size(), true),
      used_Bps_(links_.size()),
      looks_left_(kMostLooks) {
  for (std::size_t k = 0; k < capacities_Bps.size(); ++k) links_[k].capacity_Bps = capacities_Bps[k];
}

bool FairShares::Link::may_be_full() const { return wanted_Bps > capacity_Bps * (1 + kRounding); }

bool FairShares::has_many(const Link& link) const {
  return (is_crowded_ || link.flows.size() >= kManyFlows) && link.may_be_full();
}

void FairShares::await(std::uint32_t number) {
  is_deaf_[number] = true;
  if (!std::exchange(links_[number].is_awaited, true)) awaited_.push_back(number);
}

void FairShares::touch(std::uint32_t number) {
  if (!std::exchange(is_touched_[number], true)) touched_.push_back(number);
}

std::uint32_t FairShares::kind_of(const Route& route) {
  // SimGrid's: shares fall with the latency, as TCP's do.
  const double weight = route.latency_s > 0 ? 1 / route.latency_s : 1;
  double bound_Bps = links_[route.links[0]].capacity_Bps;
  for (const int link : route.all()) bound_Bps = std::min(bound_Bps, links_[link].capacity_Bps);
  const auto found = std::ranges::find_if(
      kinds_, [&](const FlowKind& kind) { return kind.weight == weight && kind.bound_Bps == bound_Bps; });
  const auto number = static_cast<std::uint32_t>(found - kinds_.begin());
  if (found == kinds_.end()) kinds_.push_back({weight, bound_Bps, bound_Bps / weight});
  return number;
}

std::uint32_t FairShares::add(const Route& route) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
    places_.emplace_back();
    is_touched_.push_back(false);
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Flow& flow = flows_[number];
  flow.links.fill(static_cast<std::uint32_t>(links_.size() - 1));
  std::ranges::copy(route.all(), flow.links.begin());
  flow.kind = kind_of(route);
  flow.hops = static_cast<std::uint32_t>(route.count);
  flow.rate_Bps = 0;
  for (std::uint32_t hop = 0; hop < flow.hops; ++hop) {
    Link& link = links_[flow.links[hop]];
    places_[number][hop] = static_cast<std::uint32_t>(link.flows.size());
    Use use{number, static_cast<std::uint16_t>(flow.kind), static_cast<std::uint16_t>(hop), {}};
    std::ranges::copy_n(flow.links.begin(), hop, use.others.begin());
    std::copy(flow.links.begin() + hop + 1, flow.links.end(), use.others.begin() + hop);
    link.flows.push_back(use);
    link.wanted_Bps += kinds_[flow.kind].bound_Bps;
    await(flow.links[hop]);
  }
  if (flow.hops > 1) ++joining_;
  allow_looks();
  begun_.push_back(number);
  return number;
}

void FairShares::remove(std::uint32_t number) {
  const Flow& flow = flows_[number];
  for (std::uint32_t hop = 0; hop < flow.hops; ++hop) {
    Link& link = links_[flow.links[hop]];
    double& used_Bps = used_Bps_[flow.links[hop]];
    const std::uint32_t place = places_[number][hop];
    const Use last = link.flows.back();
    link.flows[place] = last;
    places_[last.flow][last.hop] = place;
    link.flows.pop_back();
    used_Bps = link.flows.empty() ? 0 : used_Bps - flow.rate_Bps;
    link.wanted_Bps = link.flows.empty() ? 0 : link.wanted_Bps - kinds_[flow.kind].bound_Bps;
    await(flow.links[hop]);
  }
  if (flow.hops > 1) --joining_;
  allow_looks();
  free_.push_back(number);
}

void FairShares::allow_looks() { looks_left_ = std::min(looks_left_ + kLooks, kMostLooks); }

/// Flows that join links are a crowd where they are so many, or once looks are spent, until half of them are gone. What
/// was held is then computed again.
void FairShares::see_crowd() {
  if (is_crowded_ && 2 * joining_ < crowd_ && joining_ < kCrowd) {
    is_crowded_ = false;
    looks_left_ = std::max<std::int64_t>(looks_left_, 0);
    for (std::uint32_t number = 0; number < links_.size(); ++number)
      if (links_[number].is_known && !is_held(links_[number])) await(number);
  } else if (is_crowded_ || looks_left_ < 0 || joining_ >= kCrowd) {
    crowd_ = is_crowded_ ? std::max(crowd_, joining_) : joining_;
    is_crowded_ = true;
  }
}

/// All rates rise together, each by its weight, until the link is full or other links let none rise any more.
double FairShares::fair_level(const Link& link) {
  if (!link.may_be_full()) return kNotFull;
  offers_.resize(link.flows.size());
  const double* const levels = levels_.data();
  double left_Bps = link.capacity_Bps, weight = 0, least = kNotFull;
  auto offer = offers_.begin();
  for (const Use& use : link.flows) {
    const FlowKind& kind = kinds_[use.kind];
    double level = kind.bound_level;
    for (const std::uint32_t other : use.others) level = std::min(level, levels[other]);
    *offer++ = {level, kind.weight};
    weight += kind.weight;
    least = std::min(least, level);
  }
  if (least >= left_Bps / weight) return left_Bps / weight;
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
void FairShares::tell_other_links(const Use& use, double before, double now) {
  for (const std::uint32_t& told : use.others) {
    if (is_deaf_[told]) continue;
    double rest = kinds_[use.kind].bound_level;
    for (const std::uint32_t& other : use.others)
      if (&other != &told) rest = std::min(rest, levels_[other]);
    const double offer = std::min(rest, now), offer_before = std::min(rest, before);
    if (offer != offer_before && is_less(std::min(offer, offer_before), levels_[told])) await(told);
  }
}

void FairShares::set_level(std::uint32_t number, double level) {
  const double before = std::exchange(levels_[number], level);
  if (before == level || (!is_less(before, level) && !is_less(level, before))) return;
  for (const Use& use : links_[number].flows) {
    touch(use.flow);
    tell_other_links(use, before, level);
  }
}

void FairShares::settle_links() {
  for (; !awaited_.empty(); awaited_.pop_front()) {
    const std::uint32_t number = awaited_.front();
    Link& link = links_[number];
    link.is_awaited = false;
    is_deaf_[number] = !link.may_be_full();
    if (is_held(link)) {
      held_.push_back(number);
      continue;
    }
    link.is_known = false;
    looks_left_ -= static_cast<std::int64_t>(link.flows.size());
    set_level(number, fair_level(link));
    if (has_many(link)) shared_.push_back(number);
  }
}

void FairShares::give_rates() {
  for (const std::uint32_t number : touched_) {
    is_touched_[number] = false;
    Flow& flow = flows_[number];
    const FlowKind& kind = kinds_[flow.kind];
    double level = kind.bound_level;
    for (const std::uint32_t link : flow.links) level = std::min(level, levels_[link]);
    const double before_Bps = std::exchange(flow.rate_Bps, level * kind.weight);
    for (std::uint32_t hop = 0; hop < flow.hops; ++hop) used_Bps_[flow.links[hop]] += flow.rate_Bps - before_Bps;
    if (std::abs(flow.rate_Bps - before_Bps) > kRounding * before_Bps) changed_.push_back(number);
  }
  touched_.clear();
}

/// Those of many flows are held from now on: not before, since what others give may have changed meanwhile.
void FairShares::begin_holds() {
  for (const std::uint32_t number : shared_) {
    links_[number].is_known = true;
    links_[number].held_Bps = used_Bps_[number];
  }
  shared_.clear();
}

bool FairShares::is_out_of_hold(std::uint32_t number) const {
  const Link& link = links_[number];
  return std::abs(used_Bps_[number] - link.held_Bps) > kHold * link.capacity_Bps;
}

/// Of those whose flows are too far from what they should take. Are there any?
bool FairShares::end_holds() {
  for (const std::uint32_t number : held_) {
    Link& link = links_[number];
    if (!is_held(link) || !is_out_of_hold(number)) continue;
    link.is_known = false;
    await(number);
  }
  held_.clear();
  return !awaited_.empty();
}

std::span<const std::uint32_t> FairShares::settle() {
  changed_.clear();
  see_crowd();
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
