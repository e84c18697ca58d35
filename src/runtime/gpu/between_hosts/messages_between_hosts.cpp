// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/messages_between_hosts.h"

#include <algorithm>
#include <utility>

#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {
namespace {

PeerCuts cuts_of(const OpenGpu& gpu) {
  const int most = gpu.max_ctas ? std::min(gpu.max_ctas, gpu::kMostBlocks) : gpu::kMostBlocks;
  return {gpu_kind(gpu.kind), most, gpu::kMostBlocks};
}

}  // namespace

MessagesBetweenHosts::MessagesBetweenHosts(const MessageSurroundings& around, const Bootstrap& neighbours,
                                           const peers::OwnKernels& own)
    : around_(around),
      local_(std::make_unique<peers::MessageChannels>(around.gpu.device, neighbours)),
      kernels_({around.rank, around.size}, own, cuts_of(around.gpu)),
      enqueued_(around.gpu.device, around.rank, around.calls, [this](auto messages, auto stream) {
        kernels_.exchange(messages, [this](int peer) { return route_to(peer); }, stream);
      }) {}

bool MessagesBetweenHosts::is_carried(int peer) const { return std::ranges::count(around_.neighbours, peer) == 0; }

peers::MessageRoute MessagesBetweenHosts::route_to(int peer) const {
  if (is_carried(peer)) return channels_.at(peer)->memory.route();
  const auto place = std::ranges::find(around_.neighbours, peer) - around_.neighbours.begin();
  return local_->route_to(static_cast<int>(place));
}

std::vector<int> MessagesBetweenHosts::strangers(std::span<const Transfer> transfers) const {
  std::vector<int> peers;
  for (const Transfer& transfer : transfers)
    if (is_carried(transfer.peer) && !channels_.contains(transfer.peer) &&
        std::ranges::count(peers, transfer.peer) == 0)
      peers.push_back(transfer.peer);
  return peers;
}

std::map<int, std::shared_ptr<CarriedChannels>> MessagesBetweenHosts::make_channels(const std::vector<int>& peers,
                                                                                    Router& router) const {
  const gpu::Device::Current current(*around_.gpu.device);
  std::map<int, std::shared_ptr<CarriedChannels>> made;
  for (const int peer : peers)
    made.emplace(peer, std::make_shared<CarriedChannels>(around_.gpu.device, around_.where,
                                                         MessageProxy::TwoRanks{around_.rank, peer}, router));
  return made;
}

void MessagesBetweenHosts::expect(std::span<const Transfer> transfers, gpu::Stream stream, double timeout_s) {
  const bool captured = around_.calls.capturing(stream);
  for (const Transfer& transfer : transfers) {
    if (!is_carried(transfer.peer)) continue;
    CarriedChannels& both = *channels_.at(transfer.peer);
    const bool sends = transfer.way == Transfer::Way::send;
    MessageProxy& proxy = sends ? static_cast<MessageProxy&>(both.sends) : both.receives;
    proxy.deadline.timeout_s = timeout_s;
    if (captured)
      proxy.follow_device();
    else if (sends)
      both.sends.expect();
    else
      both.receives.expect(transfer.bytes);
  }
  if (!captured) return;
  std::erase_if(captured_, [](const gpu::GraphLife& life) { return life.has_ended(); });
  captured_.emplace_back(*around_.gpu.device, stream);
}

bool MessagesBetweenHosts::may_be_replayed() const {
  return std::ranges::any_of(captured_, [](const gpu::GraphLife& life) { return !life.has_ended(); });
}

void MessagesBetweenHosts::keep_for_good() {
  static_cast<void>(std::make_unique<std::map<int, std::shared_ptr<CarriedChannels>>>(channels_).release());
  static_cast<void>(local_.release());
}

}  // namespace lanecast
