// SPDX-License-Identifier: Apache-2.0
#include "flow_network.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lanecast::simulator {
namespace {

/// What is to happen at one moment is computed to lie so close together; SimGrid's precision as well.
constexpr double kOneMoment_s = 1e-9;
constexpr double kMostLate_s = 5e-9;  // some moments
constexpr double kNever_s = std::numeric_limits<double>::infinity();
constexpr std::size_t kNearPart = 16;  // one of so many ends is near

}  // namespace

double FlowNetwork::lateness_s() { return is_punctual_ ? 0 : kMostLate_s * draw_() / std::mt19937::max(); }

void FlowNetwork::carry(const Parcel& parcel, double from_s) {
  if (free_trips_.empty()) {
    free_trips_.push_back(static_cast<std::uint32_t>(trips_.size()));
    trips_.emplace_back();
  }
  const std::uint32_t number = free_trips_.back();
  free_trips_.pop_back();
  Trip& trip = trips_[number];
  trip = {parcel, routes_.between(parcel.from, parcel.to)};
  events_.push({std::max(from_s, now_s_) + trip.route.latency_s + lateness_s(), order_++, -1, number});
}

void FlowNetwork::wake(int rank, double at_s) { events_.push({std::max(at_s, now_s_), order_++, rank, 0}); }

FlowNetwork::End FlowNetwork::take_end() {
  std::ranges::pop_heap(ends_, std::greater<>());
  const End end = ends_.back();
  ends_.pop_back();
  return end;
}

void FlowNetwork::push(const End& end) {
  if (end.at_s > near_s_) {
    later_.push_back(end);
    return;
  }
  ends_.push_back(end);
  std::ranges::push_heap(ends_, std::greater<>());
}

/// Each new rate leaves an end behind that will not be.
void FlowNetwork::drop_void_ends() {
  if (ends_.size() + later_.size() < 2 * moving_.size() + 1024) return;
  for (std::vector<End>* some : {&ends_, &later_})
    std::erase_if(*some, [this](const End& end) { return is_void(end); });
  std::ranges::make_heap(ends_, std::greater<>());
}

/// Some of the ends that were far, all up to that moment among them.
void FlowNetwork::bring_near(double at_least_s) {
  std::erase_if(later_, [this](const End& end) { return is_void(end); });
  if (later_.empty()) return;
  const auto some = later_.begin() + static_cast<std::ptrdiff_t>(later_.size() / kNearPart);
  std::ranges::nth_element(later_, some, {}, &End::at_s);
  near_s_ = std::max(at_least_s, some->at_s);
  const auto far = std::ranges::partition(later_, [this](const End& end) { return end.at_s > near_s_; });
  ends_.insert(ends_.end(), far.begin(), far.end());
  later_.erase(far.begin(), far.end());
  std::ranges::make_heap(ends_, std::greater<>());
}

/// All that happens within a moment from then on is near.
double FlowNetwork::next_s() {
  for (;;) {
    while (!ends_.empty() && is_void(ends_.front())) take_end();
    const double event_s = events_.empty() ? kNever_s : events_.top().at_s;
    const double next_s = ends_.empty() ? event_s : std::min(event_s, ends_.front().at_s);
    if (later_.empty() || next_s + kOneMoment_s <= near_s_) return next_s;
    bring_near(next_s == kNever_s ? 0 : next_s + kOneMoment_s);
  }
}

bool FlowNetwork::end_flows(double until_s, Ranks& ranks) {
  bool any = false;
  while (!ends_.empty() && ends_.front().at_s <= until_s) {
    const End end = take_end();
    if (is_void(end)) continue;
    moving_[end.flow].end = 0;
    shares_.remove(end.flow);
    any = true;
    ranks.arrived(Parcel(parcels_[end.flow]));
  }
  return any;
}

bool FlowNetwork::pass_events(double until_s, Ranks& ranks) {
  bool any = false;
  while (!events_.empty() && events_.top().at_s <= until_s) {
    const Event event = events_.top();
    events_.pop();
    any = true;
    if (event.rank >= 0)
      ranks.woken(event.rank);
    else
      begin_flow(event.trip);
  }
  return any;
}

void FlowNetwork::begin_flow(std::uint32_t number) {
  const Trip& trip = trips_[number];
  const std::uint32_t flow = shares_.add(trip.route);
  if (moving_.size() <= flow) {
    moving_.resize(flow + 1);
    parcels_.resize(flow + 1);
  }
  moving_[flow] = {.left_bytes = static_cast<double>(trip.parcel.sent->bytes), .since_s = now_s_};
  parcels_[flow] = trip.parcel;
  free_trips_.push_back(number);
}

void FlowNetwork::settle_rates() {
  for (const std::uint32_t flow : shares_.settle()) {
    Moving& moving = moving_[flow];
    moving.left_bytes = std::max(0.0, moving.left_bytes - moving.rate_Bps * (now_s_ - moving.since_s));
    moving.since_s = now_s_;
    moving.rate_Bps = shares_.rate_Bps(flow);
    moving.end = ++order_;
    push({now_s_ + moving.left_bytes / moving.rate_Bps, moving.end, flow});
  }
  drop_void_ends();
}

void FlowNetwork::run(Ranks& ranks) {
  for (double next = next_s(); next < kNever_s; next = next_s()) {
    now_s_ = next;
    const double until_s = now_s_ + kOneMoment_s;
    while (end_flows(until_s, ranks) || pass_events(until_s, ranks)) {
    }
    settle_rates();
  }
}

}  // namespace lanecast::simulator
