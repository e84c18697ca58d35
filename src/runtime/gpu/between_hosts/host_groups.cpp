// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/host_groups.h"

#include <algorithm>
#include <utility>

#include "base/agreed.h"
#include "runtime/gpu/peer_call.h"

namespace lanecast {

HostGroups::HostGroups(const OpenGpu& gpu, Ranks ranks, const Bootstrap& members)
    : device_(gpu.device), ranks_(std::move(ranks)) {
  if (ranks_.size() < 2) return;
  peers::PeerOptions options;
  options.timeout_s = gpu.timeout_s;
  options.kind = &gpu_kind(gpu.kind);
  options.channels = false;
  // All of them may wait at once, and their blocks have to be resident together.
  const int most = gpu.max_ctas ? std::min(gpu.max_ctas, options.max_ctas) : options.max_ctas;
  options.max_ctas = std::max(1, most / gpu::kGroups);
  for (int k = 0; k < gpu::kGroups; ++k)
    turns_.push_back({std::make_unique<peers::PeerGroup>(device_, gpu.kernels, members, options),
                      agreed(members, [&] { return gpu::OwnedEvent(device_); })});
}

void HostGroups::call(std::int32_t k, const GroupStep& step, const peers::PartAddresses& places,
                      std::uint16_t signature, gpu::Stream stream) {
  const GroupInTurn& turns = turns_[k % gpu::kGroups];
  const gpu::Driver& driver = device_->driver();
  device_->check(driver.cuStreamWaitEvent(stream, turns.passed.get(), 0), "cuStreamWaitEvent");
  turns.group->by_kernel(peer_call(step, *turns.group, signature, places), stream);
  device_->check(driver.cuEventRecord(turns.passed.get(), stream), "cuEventRecord");
}

void HostGroups::set_timeout(double timeout_s) const {
  for (const GroupInTurn& turns : turns_) turns.group->set_timeout(timeout_s);
}

std::vector<gpu::Address> HostGroups::controls() const {
  std::vector<gpu::Address> found;
  found.reserve(turns_.size());
  for (const GroupInTurn& turns : turns_) found.push_back(turns.group->control());
  return found;
}

std::optional<peers::PeerFault> HostGroups::fault() const {
  for (const GroupInTurn& turns : turns_)
    if (auto fault = turns.group->fault()) {
      fault->peer = ranks_[fault->peer];
      return fault;
    }
  return {};
}

void HostGroups::poison() {
  for (const GroupInTurn& turns : turns_) turns.group->poison();
}

}  // namespace lanecast
