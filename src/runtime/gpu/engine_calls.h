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
  void choose_by(const std::vector<PeerFits>& measured);
  Explanation explain(const Call& call, bool symmetric, std::string_view pinned) const;

  /// pinned: the engine that the user has named. Throws UsageError where the call is not for it.
  void enqueue(const Call& call, bool in_place, std::optional<PeerEngine> pinned, gpu::Stream stream);

 private:
  static constexpr std::size_t kMost = 64;

  PeerTraffic traffic_of(const Call& call, bool symmetric) const;
  /// Equal on all ranks.
  PeerEngine engine_for(const Call& call, const InHostBuffers& buffers, std::optional<PeerEngine> pinned) const;
  /// Would the direct engine serve the call as well as this one, which is chosen for plain memory?
  bool offers(const Call& call, const InHostBuffers& buffers, PeerEngine engine) const;
  InHostCall& bound(const Call& call, bool in_place, PeerEngine engine);

  EngineSurroundings on_;
  PeerLines lines_;
  RecentCalls<InHostCall> bound_{kMost};
};

}  // namespace lanecast
