// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/order_of_messages.h"

#include <set>
#include <string>

#include "base/error.h"

namespace lanecast {

void OrderOfMessages::begin(std::span<const Transfer> transfers, gpu::Stream stream) const {
  std::set<const gpu::OwnedEvent*> before;  // mostly one: the same messages again
  for (const Transfer& transfer : transfers)
    if (const auto last = last_.find(channel_of(transfer)); last != last_.end()) before.insert(last->second.get());
  for (const gpu::OwnedEvent* event : before)
    device_->check(device_->driver().cuStreamWaitEvent(stream, event->get(), 0), "cuStreamWaitEvent");
}

void OrderOfMessages::end(std::span<const Transfer> transfers, gpu::Stream stream) {
  const std::shared_ptr<gpu::OwnedEvent> event = unused_event();
  device_->check(device_->driver().cuEventRecord(event->get(), stream), "cuEventRecord");
  for (const Transfer& transfer : transfers) last_[channel_of(transfer)] = event;
}

gpu::Stream OrderOfMessages::stream(std::span<const Transfer> transfers) {
  const Channel channel = transfers.empty() ? Channel{} : channel_of(transfers[0]);
  auto known = streams_.find(channel);
  if (known == streams_.end()) known = streams_.emplace(channel, gpu::OwnedStream(device_)).first;
  return known->second.get();
}

std::vector<std::shared_ptr<const gpu::OwnedEvent>> OrderOfMessages::ends() const {
  std::vector<std::shared_ptr<const gpu::OwnedEvent>> ends;
  ends.reserve(last_.size());
  for (const auto& [channel, event] : last_) ends.push_back(event);
  return ends;
}

std::shared_ptr<gpu::OwnedEvent> OrderOfMessages::unused_event() {
  // One that no channel refers to any more: whoever waits for it has been told to.
  for (const auto& event : events_)
    if (event.use_count() == 1) return event;
  events_.push_back(std::make_shared<gpu::OwnedEvent>(device_));
  return events_.back();
}

std::vector<peers::PeerMessage> peer_messages(std::span<const Transfer> transfers, int rank) {
  std::vector<peers::PeerMessage> messages;
  std::vector<std::size_t> sent, received;  // bytes, to this rank and from it
  messages.reserve(transfers.size());
  for (const Transfer& transfer : transfers) {
    const bool sends = transfer.way == Transfer::Way::send;
    messages.push_back({sends, transfer.peer, {reinterpret_cast<gpu::Address>(transfer.data), transfer.bytes}});
    if (transfer.peer == rank) (sends ? sent : received).push_back(transfer.bytes);
  }
  if (sent != received)
    throw UsageError("rank " + std::to_string(rank) +
                     ": messages to this rank itself have to be sent and received in " +
                     "one group, in the same order and of equal sizes; " + std::to_string(sent.size()) + " are sent, " +
                     std::to_string(received.size()) + " received");
  return messages;
}

}  // namespace lanecast
