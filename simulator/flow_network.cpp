// SPDX-License-Identifier: Apache-2.0
#include "flow_network.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lanecast::simulator {
namespace {

/// What is to happen at one moment is computed to lie so close together; SimGrid's precision as well.
constexpr double kOneMoment_s = 1e-9;

}  // namespace

void FlowNetwork::carry(const Parcel& parcel, double from_s) {
  if (free_trips_.empty()) {
    free_trips_.push_back(static_cast<std::uint32_t>(trips_.size()));
    trips_.emplace_back();
  }
  const std::uint32_t number = free_trips_.back();
  free_trips_.pop_back();
  Trip& trip = trips_[number];
  trip = {parcel, routes_.between(parcel.from, parcel.to)};
  events_.push({std::max(from_s, now_s_) + trip.route.latency_s, order_++, -1, number});
}

void FlowNetwork::wake(int rank, double at_s) { events_.push({std::max(at_s, now_s_), order_++, rank, 0}); }

FlowNetwork::End FlowNetwork::take_end() {
  std::ranges::pop_heap(ends_, std::greater<>());
  const End end = ends_.back();
  ends_.pop_back();
  return end;
}

/// Each new rate leaves an end behind that will not be.
void FlowNetwork::drop_void_ends() {
  if (ends_.size() < 2 * moving_.size() + 1024) return;
  std::erase_if(ends_, [this](const End& end) { return is_void(end); });
  std::ranges::make_heap(ends_, std::greater<>());
}

double FlowNetwork::next_s() {
  while (!ends_.empty() && is_void(ends_.front())) take_end();
  const double event_s = events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().at_s;
  return ends_.empty() ? event_s : std::min(event_s, ends_.front().at_s);
}

bool FlowNetwork::end_flows(double until_s, Ranks& ranks) {
  bool any = false;
  while (!ends_.empty() && ends_.front().at_s <= until_s) {
    const End end = take_end();
    if (is_void(end)) continue;
    moving_[end.flow].end = 0;
    shares_.remove(end.flow);
    any = true;
    ranks.arrived(Parcel(moving_[end.flow].parcel));
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
  if (moving_.size() <= flow) moving_.resize(flow + 1);
  moving_[flow] = {
      .parcel = trip.parcel, .left_bytes = static_cast<double>(trip.parcel.sent->bytes), .since_s = now_s_};
  free_trips_.push_back(number);
}

void FlowNetwork::settle_rates() {
  for (const std::uint32_t flow : shares_.settle()) {
    Moving& moving = moving_[flow];
    moving.left_bytes = std::max(0.0, moving.left_bytes - moving.rate_Bps * (now_s_ - moving.since_s));
    moving.since_s = now_s_;
    moving.rate_Bps = shares_.rate_Bps(flow);
    moving.end = ++order_;
    ends_.push_back({now_s_ + moving.left_bytes / moving.rate_Bps, moving.end, flow});
    std::ranges::push_heap(ends_, std::greater<>());
  }
  drop_void_ends();
}

void FlowNetwork::run(Ranks& ranks) {
  for (double next = next_s(); next < std::numeric_limits<double>::infinity(); next = next_s()) {
    now_s_ = next;
    const double until_s = now_s_ + kOneMoment_s;
    while (end_flows(until_s, ranks) || pass_events(until_s, ranks)) {
    }
    settle_rates();
  }
}

}  // namespace lanecast::simulator
