// SPDX-License-Identifier: Apache-2.0
// Messages between pairs of ranks, those of one call in as few kernels as hold them.
#pragma once

#include <functional>
#include <span>

#include "device/gpu/kernels/message_arguments.h"
#include "peers/own_kernels.h"
#include "peers/parcels.h"
#include "select/peer_cuts.h"

namespace lanecast::peers {

/// A message to or from a rank, which may be this one itself.
struct PeerMessage {
  bool sends = false;
  int peer = 0;
  Parcel data;
};

/// How this rank's kernels reach another one.
struct MessageRoute {
  gpu::Address ends = 0;       // gpu::MessageEnds
  std::size_t slot_bytes = 0;  // within a host; 0: it is on another one
};

class MessageKernels {
 public:
  struct Ranks {
    int rank, size;
  };
  /// own: outlives it.
  MessageKernels(Ranks ranks, const OwnKernels& own, const PeerCuts& cuts) : ranks_(ranks), own_(own), cuts_(cuts) {}

  /// All at once; those between this rank and another one match in the order of the calls on both. Only the two take
  /// part. Those to this rank itself come in pairs of equal size. The device is current.
  void exchange(std::span<const PeerMessage> messages, const std::function<MessageRoute(int peer)>& route_to,
                gpu::Stream stream) const;

 private:
  struct MessageQueues;
  struct PartOfQueues;
  /// Messages of a part of the queues, of some peers. False: there are none.
  bool fill(gpu::Messages& x, const MessageQueues& queues, const PartOfQueues& part,
            const std::function<MessageRoute(int peer)>& route_to) const;
  /// How many there are.
  int share_blocks(gpu::Messages& x) const;

  Ranks ranks_;
  OwnKernels own_;
  PeerCuts cuts_;
};

}  // namespace lanecast::peers
