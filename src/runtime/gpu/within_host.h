// SPDX-License-Identifier: Apache-2.0
// Calls among the GPUs of one host, which reach each other's memory.
#pragma once

#include <memory>

#include "peers/peer_group.h"
#include "runtime/gpu/engine_calls.h"
#include "runtime/gpu/enqueued_calls.h"
#include "runtime/gpu/enqueued_messages.h"
#include "runtime/gpu/in_host_programs.h"
#include "runtime/gpu/open_gpu.h"
#include "runtime/gpu/reachable_buffers.h"
#include "topology/topology.h"

namespace lanecast {

struct WithinHost {
  /// Collective over all ranks. Throws on all where it does on one. The references outlive it.
  WithinHost(std::unique_ptr<peers::PeerGroup> all, const OpenGpu& gpu, const Topology& topology,
             const Bootstrap& bootstrap, EnqueuedCalls& enqueued)
      : peers(std::move(all)),
        board(bootstrap),
        buffers(gpu.device, bootstrap, board),
        engines({gpu, topology, *peers, buffers, enqueued}),
        programs(gpu.device, topology, *peers, enqueued),
        messages(gpu.device, bootstrap.rank, enqueued.order,
                 [group = peers.get()](auto messages, auto stream) { group->exchange(messages, stream); }) {}
  WithinHost(const WithinHost&) = delete;
  WithinHost& operator=(const WithinHost&) = delete;

  std::unique_ptr<peers::PeerGroup> peers;
  peers::HostBoard board;
  ReachableBuffers buffers;
  EngineCalls engines;      // collectives whose algorithm is one of theirs
  InHostPrograms programs;  // collectives by algorithms of plans, and compositions
  EnqueuedMessages messages;
};

}  // namespace lanecast
