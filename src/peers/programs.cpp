// SPDX-License-Identifier: Apache-2.0
// Programs, each launched as one kernel.
#include <algorithm>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

constexpr std::size_t kLaneBytes = 8192;  // of the longest message; shorter ones take fewer lanes

}  // namespace

int PeerGroup::lanes_for(std::size_t longest_bytes) const {
  const std::size_t most = std::min(most_blocks(longest_bytes), gpu::kMostLanes);
  return static_cast<int>(std::clamp<std::size_t>(longest_bytes / kLaneBytes, 1, most));
}

void PeerGroup::open_programs(const Bootstrap& members) {
  if (!programs_) programs_ = std::make_unique<ProgramMemory>(device_, members);
}

void PeerGroup::by_program(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  run.rank = static_cast<gpu::u32>(rank());
  run.ranks = static_cast<gpu::u32>(size());
  run.timeout_ns = timeout_ns_;
  run.control = memory_.control();
  run.fault = faults_.device();
  programs_->fill(run);
  launches_.program(dtype, run, lanes, stream);
}

}  // namespace lanecast::peers
