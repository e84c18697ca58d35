// SPDX-License-Identifier: Apache-2.0
// The network of most simulations: messages as flows that share links, all that happens at one moment at once. What
// thousands of ranks do alike then costs one look at the shares. SimGrid's own network stands beside it as reference.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "fair_shares.h"
#include "moment.h"
#include "network.h"

namespace lanecast::simulator {

class FlowNetwork final : public Network {
 public:
  /// accidents: unless it is 0, a seed of some nanoseconds by which each message is late.
  FlowNetwork(const Machine& machine, int ranks, unsigned accidents)
      : routes_(machine, ranks), shares_(routes_.capacities()), is_punctual_(accidents == 0), draw_(accidents) {}

  double now_s() const override { return now_s_; }
  void carry(const Parcel& parcel, double from_s) override;
  void wake(int rank, double at_s) override;
  void run(Ranks& ranks) override;

 private:
  struct Event : Moment {
    int rank;            // woken, or -1
    std::uint32_t trip;  // that has its latency behind it
  };
  struct End : Moment {
    std::uint32_t flow;
  };
  /// A message on its way, before it has a flow.
  struct Trip {
    Parcel parcel;
    Route route;
  };
  struct Moving {
    double left_bytes = 0, rate_Bps = 0, since_s = 0;
    std::uint64_t end = 0;  // the order of its End; others of this flow are void
  };

  double lateness_s();
  bool is_void(const End& end) const { return moving_[end.flow].end != end.order; }
  double next_s();
  void push(const End& end);
  void bring_near(double at_least_s);
  End take_end();
  bool end_flows(double until_s, Ranks& ranks);
  bool pass_events(double until_s, Ranks& ranks);
  void begin_flow(std::uint32_t trip);
  void settle_rates();
  void drop_void_ends();

  Routes routes_;
  FairShares shares_;
  bool is_punctual_;
  std::mt19937 draw_;
  double now_s_ = 0;
  std::uint64_t order_ = 0;
  Soonest<Event> events_;
  // Where many flows share links, each end that comes moves most of the others: those that lie far are not sorted.
  double near_s_ = 0;
  std::vector<End> ends_;   // up to that moment: a heap, the soonest first
  std::vector<End> later_;  // in any order
  std::vector<Trip> trips_;
  std::vector<std::uint32_t> free_trips_;
  std::vector<Moving> moving_;   // by flow
  std::vector<Parcel> parcels_;  // by flow
};

}  // namespace lanecast::simulator
