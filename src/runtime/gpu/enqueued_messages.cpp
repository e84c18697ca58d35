// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/enqueued_messages.h"

#include <algorithm>
#include <vector>

namespace lanecast {

void EnqueuedMessages::enqueue(std::span<const Transfer> transfers, gpu::Stream stream) {
  const std::vector<peers::PeerMessage> messages = peer_messages(transfers, rank_);
  if (messages.empty()) return;
  const gpu::Device::Current current(*device_);
  const bool captured = calls_.capturing(stream);
  if (!captured) order_.begin(transfers, stream);
  exchange_(messages, stream);
  if (!captured) order_.end(transfers, stream);
}

bool EnqueuedMessages::idle() const {
  return std::ranges::all_of(order_.ends(), [this](const auto& end) { return calls_.passed(*end); });
}

}  // namespace lanecast
