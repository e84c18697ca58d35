// SPDX-License-Identifier: Apache-2.0
#include "simgrid_network.h"

#include <algorithm>
#include <simgrid/kernel/Timer.hpp>

namespace lanecast::simulator {

using simgrid::kernel::timer::Timer;
using simgrid::s4u::Activity;
using simgrid::s4u::Comm;

SimGridNetwork::SimGridNetwork(const simgrid::s4u::Engine& engine, std::vector<simgrid::s4u::Host*> hosts)
    : engine_(engine), hosts_(std::move(hosts)) {
  Activity::on_completion_cb([this](const Activity& activity) {
    const auto found = under_way_.find(&activity);
    const Parcel parcel = found->second.second;
    gone_.push_back(found->second.first);
    under_way_.erase(found);
    ranks_->arrived(parcel);
  });
}

/// SimGrid's timers of one moment come in any order, and ranks would go on with another message than they would have.
void SimGridNetwork::add(Event event) {
  event.at_s = std::max(event.at_s, now_s());
  event.order = order_++;
  if (events_.empty() || event.at_s < events_.top().at_s) Timer::set(event.at_s, [this] { pass_events(); });
  events_.push(event);
}

void SimGridNetwork::carry(const Parcel& parcel, double from_s) { add({from_s, 0, -1, parcel}); }

void SimGridNetwork::wake(int rank, double at_s) { add({at_s, 0, rank, {}}); }

void SimGridNetwork::pass_events() {
  while (!events_.empty() && events_.top().at_s <= now_s()) {
    const Event event = events_.top();
    events_.pop();
    if (event.rank >= 0)
      ranks_->woken(event.rank);
    else
      start(event.parcel);
  }
  if (!events_.empty()) Timer::set(events_.top().at_s, [this] { pass_events(); });
}

void SimGridNetwork::start(const Parcel& parcel) {
  const auto comm = Comm::sendto_init(hosts_[parcel.from], hosts_[parcel.to]);
  comm->set_payload_size(parcel.sent->bytes);
  gone_.clear();
  under_way_.emplace(comm.get(), std::pair(comm, parcel));
  comm->start();
}

void SimGridNetwork::run(Ranks& ranks) {
  ranks_ = &ranks;
  engine_.run();
}

}  // namespace lanecast::simulator
