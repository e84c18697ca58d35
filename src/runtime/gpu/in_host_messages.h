// SPDX-License-Identifier: Apache-2.0
// Messages of a GPU's memory between ranks of one host, which no other call waits for.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "peers/peer_group.h"
#include "runtime/gpu/order_of_calls.h"
#include "runtime/gpu/order_of_messages.h"

namespace lanecast {

class InHostMessages {
 public:
  /// All of them outlive it.
  InHostMessages(std::shared_ptr<gpu::Device> device, peers::PeerGroup& peers, const OrderOfCalls& calls)
      : device_(std::move(device)), peers_(peers), calls_(calls), order_(device_) {}

  /// All at once; this rank may be a peer of its own. They come after what `stream` holds and after earlier messages
  /// between the same two ranks in the same direction. Throws UsageError before anything is enqueued.
  void enqueue(std::span<const Transfer> transfers, gpu::Stream stream);
  /// For messages beside the caller's stream, which wait for no other calls.
  gpu::Stream own_stream(std::span<const Transfer> transfers) { return order_.stream(transfers); }
  /// Have they run? What is replayed from a graph does not count.
  bool idle() const;

 private:
  std::shared_ptr<gpu::Device> device_;
  peers::PeerGroup& peers_;
  const OrderOfCalls& calls_;
  OrderOfMessages order_;
};

}  // namespace lanecast
