// SPDX-License-Identifier: Apache-2.0
// Messages of a GPU's memory between two ranks, which no other call waits for.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "peers/message_kernels.h"
#include "runtime/gpu/order_of_calls.h"
#include "runtime/gpu/order_of_messages.h"

namespace lanecast {

class EnqueuedMessages {
 public:
  /// Has the device run messages that are all in order behind a stream.
  using Exchange = std::function<void(std::span<const peers::PeerMessage>, gpu::Stream)>;
  /// calls: outlives it.
  EnqueuedMessages(std::shared_ptr<gpu::Device> device, int rank, const OrderOfCalls& calls, Exchange exchange)
      : device_(std::move(device)), rank_(rank), calls_(calls), exchange_(std::move(exchange)), order_(device_) {}

  /// All at once; this rank may be a peer of its own. They come after what `stream` holds and after earlier messages
  /// between the same two ranks in the same direction. Throws UsageError before anything is enqueued.
  void enqueue(std::span<const Transfer> transfers, gpu::Stream stream);
  /// For messages beside the caller's stream, which wait for no other calls.
  gpu::Stream own_stream(std::span<const Transfer> transfers) { return order_.stream(transfers); }
  /// Have they run? What is replayed from a graph does not count.
  bool idle() const;

 private:
  std::shared_ptr<gpu::Device> device_;
  int rank_;
  const OrderOfCalls& calls_;
  Exchange exchange_;
  OrderOfMessages order_;
};

}  // namespace lanecast
