// SPDX-License-Identifier: Apache-2.0
// Collectives among the GPUs of one host, each by one of the peers' engines: fused kernels, or copy engines.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/bound/recent_calls.h"
#include "runtime/gpu/enqueued_calls.h"
#include "runtime/gpu/in_host_call.h"
#include "runtime/gpu/open_gpu.h"
#include "runtime/gpu/reachable_buffers.h"
#include "runtime/gpu/timed_trials.h"
#include "select/explain.h"
#include "select/peer_lines.h"
#include "topology/topology.h"

namespace lanecast {

class EngineCalls {
 public:
  /// What they work on, which outlives them.
  struct EngineSurroundings {
    const OpenGpu& gpu;
    const Topology& topology;
    peers::PeerGroup& peers;
    ReachableBuffers& buffers;
    EnqueuedCalls& enqueued;
  };
  explicit EngineCalls(const EngineSurroundings& around);

  /// Choose engines by what was measured, where that was among as many ranks with GPUs of this kind. Equal on all
  /// ranks. Throws UsageError where the user has named what was measured on others.
  void choose_by(const Models& models);
  /// What a call may take beside kernels that add at once what all ranks bring, in their order.
  struct Allowed {
    bool any_order = false;   // sums may be added in another one
    std::string no_nccl;      // why NCCL does not take it; empty: it does
    bool tries_nccl = false;  // in the first calls of a size, where nobody has timed it with multicast
  };
  /// captured: as a call that a graph records.
  Explanation explain(const Call& call, PeerQuestion question, const Allowed& allowed) const;

  /// How a call goes, equal on all ranks.
  struct Way {
    PeerEngine engine = PeerEngine::kernel;
    bool named = false;                     // by the user
    PeerTraffic traffic;                    // that it was chosen for
    std::optional<Trials::TrialTurn> turn;  // of a trial
  };
  /// named: by the user; empty: the fastest. Throws UsageError where the call is not for the engine.
  Way way_of(const Call& call, std::string_view named, const Allowed& allowed, gpu::Stream stream);
  /// By any engine but NCCL.
  void enqueue(const Call& call, bool in_place, const Way& way, gpu::Stream stream);
  TimedTrials& trials() { return trials_; }

 private:
  static constexpr std::size_t kMost = 64;

  PeerTraffic traffic_of(const Call& call, bool symmetric) const;
  void require(PeerEngine named, const PeerTraffic& traffic) const;
  /// Would the direct engine serve the call as well as this one, which is chosen for plain memory?
  bool offers(const Call& call, const InHostBuffers& buffers, PeerEngine engine) const;
  InHostCall& bound(const Call& call, bool in_place, PeerEngine engine);

  EngineSurroundings on_;
  PeerLines lines_;
  TimedTrials trials_;
  RecentCalls<InHostCall> bound_{kMost};
};

}  // namespace lanecast
