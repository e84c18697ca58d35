// SPDX-License-Identifier: Apache-2.0
// Messages of a GPU's memory between two ranks of a communicator whose ranks are on several hosts: to a rank of this
// host through its memory, to others by proxies. What two ranks of different hosts have for that either makes by
// itself, when it first has a message with the other.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/gpu/graph_life.h"
#include "peers/message_channels.h"
#include "runtime/gpu/between_hosts/message_proxy.h"
#include "runtime/gpu/enqueued_messages.h"
#include "runtime/gpu/open_gpu.h"
#include "topology/topology.h"

namespace lanecast {

/// With a rank of another host.
struct CarriedChannels {
  CarriedChannels(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& where,
                  MessageProxy::TwoRanks ranks, Router& router)
      : memory(device, where, ranks.peer), sends(router, memory.to(), ranks), receives(router, memory.from(), ranks) {}

  ChannelMemory memory;
  SendingProxy sends;
  ReceivingProxy receives;
};

class MessagesBetweenHosts {
 public:
  struct MessageSurroundings {
    const OpenGpu& gpu;
    const WhereMessagesLie& where;  // messages lie
    Ranks neighbours;               // on this host, with this rank
    int rank, size;
    const OrderOfCalls& calls;
  };
  /// Collective over the neighbours. All that it is given outlives it.
  MessagesBetweenHosts(const MessageSurroundings& around, const Bootstrap& neighbours, const peers::OwnKernels& own);

  /// Ranks of other hosts that have no channels here yet.
  std::vector<int> strangers(std::span<const Transfer> transfers) const;
  /// With them. Takes memory: the driver may wait for what the device does, and that for messages. So whoever moves
  /// these has to get his turns meanwhile.
  std::map<int, std::shared_ptr<CarriedChannels>> make_channels(const std::vector<int>& peers, Router& router) const;
  void add(std::map<int, std::shared_ptr<CarriedChannels>> made) { channels_.merge(made); }

  /// Messages, in two parts. The first lets the proxies know.
  void expect(std::span<const Transfer> transfers, gpu::Stream stream, double timeout_s);
  /// The second enqueues them: where the driver has no room it blocks until the proxies have moved those before.
  void enqueue(std::span<const Transfer> transfers, gpu::Stream stream) { enqueued_.enqueue(transfers, stream); }
  gpu::Stream own_stream(std::span<const Transfer> transfers) { return enqueued_.own_stream(transfers); }
  bool idle() const { return enqueued_.idle(); }

  template <class Each>
  void for_each_proxy(const Each& each) const {
    for (const auto& [peer, both] : channels_) {
      each(both->sends, peer);
      each(both->receives, peer);
    }
  }
  /// May a graph replay messages of a channel at any time?
  bool may_be_replayed() const;
  /// Where a library below asks the thread for it; else null.
  std::shared_ptr<gpu::Device> context() const { return around_.where.needs_context ? around_.gpu.device : nullptr; }
  /// What proxies have posted may still be written to, and what graphs have captured be read.
  void keep_for_good();

 private:
  bool is_carried(int peer) const;
  peers::MessageRoute route_to(int peer) const;

  MessageSurroundings around_;
  std::unique_ptr<peers::MessageChannels> local_;
  std::map<int, std::shared_ptr<CarriedChannels>> channels_;
  peers::MessageKernels kernels_;
  EnqueuedMessages enqueued_;
  std::vector<gpu::GraphLife> captured_;
};

}  // namespace lanecast
