// SPDX-License-Identifier: Apache-2.0
// SimGrid's own network, by which the flows of flow_network.h are judged: the same ranks, the same machine.
#pragma once

#include <cstdint>
#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "moment.h"
#include "network.h"

namespace lanecast::simulator {

class SimGridNetwork final : public Network {
 public:
  SimGridNetwork(const simgrid::s4u::Engine& engine, std::vector<simgrid::s4u::Host*> hosts);

  double now_s() const override { return simgrid::s4u::Engine::get_clock(); }
  void carry(const Parcel& parcel, double from_s) override;
  void wake(int rank, double at_s) override;
  void run(Ranks& ranks) override;

 private:
  struct Event : Moment {
    int rank;  // woken, or -1
    Parcel parcel;
  };

  void add(Event event);
  void pass_events();
  void start(const Parcel& parcel);

  const simgrid::s4u::Engine& engine_;
  std::vector<simgrid::s4u::Host*> hosts_;
  Ranks* ranks_ = nullptr;
  std::uint64_t order_ = 0;
  Soonest<Event> events_;
  std::unordered_map<const simgrid::s4u::Activity*, std::pair<simgrid::s4u::CommPtr, Parcel>> under_way_;
  std::vector<simgrid::s4u::CommPtr> gone_;  // at which SimGrid may still look
};

}  // namespace lanecast::simulator
