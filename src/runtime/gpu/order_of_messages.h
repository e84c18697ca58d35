// SPDX-License-Identifier: Apache-2.0
// Order among the messages of a GPU's memory: those between the same two ranks in one direction follow each other, on
// whatever streams they were enqueued, and nothing else waits for them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/gpu/stream.h"
#include "peers/message_kernels.h"
#include "runtime/request/transfer.h"

namespace lanecast {

class OrderOfMessages {
 public:
  explicit OrderOfMessages(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  /// What `stream` does from now on comes after earlier messages of the same channels; and what later ones come after.
  void begin(std::span<const Transfer> transfers, gpu::Stream stream) const;
  void end(std::span<const Transfer> transfers, gpu::Stream stream);

  /// For messages beside the caller's stream; others than these go on.
  gpu::Stream stream(std::span<const Transfer> transfers);

  /// The ends of messages, in no order; some may have passed.
  std::vector<std::shared_ptr<const gpu::OwnedEvent>> ends() const;

 private:
  using Channel = std::pair<Transfer::Way, int>;  // and the peer
  static Channel channel_of(const Transfer& transfer) { return {transfer.way, transfer.peer}; }
  std::shared_ptr<gpu::OwnedEvent> unused_event();

  std::shared_ptr<gpu::Device> device_;
  std::map<Channel, std::shared_ptr<gpu::OwnedEvent>> last_;  // shared by the channels of one call
  std::vector<std::shared_ptr<gpu::OwnedEvent>> events_;
  std::map<Channel, gpu::OwnedStream> streams_;
};

/// For peer memory. Messages to this rank itself are paired with those from it. Throws UsageError (rank) for those that
/// are not, or not of equal size.
std::vector<peers::PeerMessage> peer_messages(std::span<const Transfer> transfers, int rank);

}  // namespace lanecast
