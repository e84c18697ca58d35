// SPDX-License-Identifier: Apache-2.0
// One simulated rank: the library's executor over a simulated transport, with a clock of its own.
#pragma once

#include <memory>

#include "buffers.h"
#include "job.h"
#include "plan/composition.h"
#include "rank_transport.h"
#include "runtime/host/plan_cache.h"
#include "topology/topology.h"

namespace lanecast::simulator {

/// What all ranks call.
struct CallToRun {
  const Job& job;
  Topology topology;
  std::shared_ptr<const Composition> composition;  // none: a call of the library's own collectives
};

class SimulatedRank {
 public:
  SimulatedRank(const CallToRun& call, int rank, PostOffice& office);
  SimulatedRank(const SimulatedRank&) = delete;
  SimulatedRank& operator=(const SimulatedRank&) = delete;

  int rank() const { return rank_; }
  /// Messages that it sends at most; some may be empty.
  std::size_t sends() const;

  /// Goes on as far as it can, from that moment or from when its device is free.
  void go_on(double now_s);
  void finish(const Message& message, double now_s);
  double busy_until_s() const { return clock_.busy_until_s; }
  /// Is there anything to go on with?
  bool wants_to_go_on() const { return !begun_ || transport_->has_finished(); }
  bool finished() const { return begun_ && execution_->finished(); }
  std::string waits_for() const { return execution_->waiting_for(-1); }
  std::size_t wrong_elements() const { return buffers_.wrong(); }

  bool is_to_be_woken = false;

 private:
  int rank_;
  Buffers buffers_;
  RankClock clock_;
  Router router_;
  RankTransport* transport_;  // the router's
  PlanCache plans_;
  std::shared_ptr<Execution> execution_;
  const std::byte* in_;
  std::byte* out_;
  bool begun_ = false;
};

}  // namespace lanecast::simulator
