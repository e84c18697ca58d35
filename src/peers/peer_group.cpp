// SPDX-License-Identifier: Apache-2.0
#include "peers/peer_group.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/agreed.h"

namespace lanecast::peers {

PeerGroup::PeerGroup(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gpu::Kernels> kernels,
                     const Bootstrap& members, const PeerOptions& options)
    : PeerGroup(agreed(members,
                       [&] {
                         return Own{Launches(device, std::move(kernels)), Faults(device),
                                    EngineStreams(device, members.size), gpu::OwnedStream(device)};
                       }),
                device, members, options) {}

PeerGroup::PeerGroup(Own own, std::shared_ptr<gpu::Device> device, const Bootstrap& members, const PeerOptions& options)
    : device_(std::move(device)),
      launches_(std::move(own.launches)),
      cuts_(*options.kind, options.max_ctas, gpu::kMostBlocks),
      faults_(std::move(own.faults)),
      memory_(device_, members),
      channels_(device_, members),
      messages_({members.rank, members.size}, OwnKernels{launches_, faults_, memory_.control()}, cuts_),
      engines_(std::move(own.engines)),
      poison_(std::move(own.poison)) {
  set_timeout(options.timeout_s);
  const char has_pumps = launches_.has_pumps(DType::float32) ? 1 : 0;
  std::vector<char> have(members.size);
  members.all_gather(&has_pumps, have.data(), sizeof has_pumps);
  pumps_ = std::ranges::count(have, 1) == members.size;
}

void PeerGroup::open_programs(const Bootstrap& members) {
  if (!programs_)
    programs_ = std::make_unique<ProgramPeers>(device_, members, OwnKernels{launches_, faults_, memory_.control()});
}

void PeerGroup::copy(void* to, const void* from, std::size_t bytes, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  device_->check(
      device_->driver().copy(reinterpret_cast<gpu::Address>(to), reinterpret_cast<gpu::Address>(from), bytes, stream),
      "cuMemcpyAsync");
}

void PeerGroup::poison_peers() {
  // This device may have failed. Then the peers have their deadlines.
  try {
    const gpu::Device::Current current(*device_);
    for (int q = 0; q < size(); ++q)
      if (q != rank())
        device_->driver().copy(memory_.control(q) + offsetof(gpu::Control, failed), faults_.poisoned(),
                               sizeof(gpu::Control::failed), poison_.get());
  } catch (const Error&) {
  }
}

void PeerGroup::exchange(std::span<const PeerMessage> messages, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  messages_.exchange(messages, [this](int member) { return channels_.route_to(member); }, stream);
}

gpu::GroupArguments PeerGroup::group(std::uint16_t signature) const {
  gpu::GroupArguments group{};
  group.rank = static_cast<gpu::u32>(rank());
  group.ranks = static_cast<gpu::u32>(size());
  group.signature = signature;
  group.timeout_ns = faults_.timeout_ns();
  for (int q = 0; q < size(); ++q) group.flags[q] = memory_.flags(q);
  group.control = memory_.control();
  group.fault = faults_.device();
  return group;
}

void PeerGroup::barrier(std::uint16_t signature, gpu::Stream stream) const {
  launches_.barrier(group(signature), stream);
}

}  // namespace lanecast::peers
