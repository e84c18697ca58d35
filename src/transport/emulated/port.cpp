// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/port.h"

namespace lanecast::emulated {
namespace {

constexpr std::size_t kHeadBytes = (sizeof(PortHead) + 4095) / 4096 * 4096;

constexpr std::size_t queue_bytes(std::size_t queue) {
  return Ring<NicWork>::bytes(kQueueShapes[queue]) + Ring<Arrival>::bytes(kQueueShapes[queue]);
}
constexpr std::size_t kPairBytes = queue_bytes(0) + queue_bytes(1);
static_assert(kQueues == 2 && kPairBytes % 64 == 0);

}  // namespace

std::size_t PortMemory::bytes(int ranks) { return kHeadBytes + static_cast<std::size_t>(ranks) * kPairBytes; }

std::byte* PortMemory::pair(int peer, Queue queue) const {
  return mapping_.data() + kHeadBytes + static_cast<std::size_t>(peer) * kPairBytes +
         (queue == Queue::puts ? queue_bytes(0) : 0);
}

Ring<NicWork> PortMemory::works(int peer, Queue queue) const {
  return {pair(peer, queue), kQueueShapes[static_cast<std::size_t>(queue)]};
}

Ring<Arrival> PortMemory::arrivals(int peer, Queue queue) const {
  const QueueShape shape = kQueueShapes[static_cast<std::size_t>(queue)];
  return {pair(peer, queue) + Ring<NicWork>::bytes(shape), shape};
}

}  // namespace lanecast::emulated
