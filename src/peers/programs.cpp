// SPDX-License-Identifier: Apache-2.0
// Programs, each launched as one kernel.
#include "peers/peer_group.h"

namespace lanecast::peers {

int PeerGroup::lanes_for(std::size_t longest_bytes) const { return cuts_.lanes(longest_bytes, gpu::kMostLanes); }

void PeerGroup::open_programs(const Bootstrap& members) {
  if (!programs_) programs_ = std::make_unique<ProgramMemory>(device_, members);
}

void PeerGroup::by_program(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  run.timeout_ns = timeout_ns_;
  run.control = memory_.control();
  run.fault = faults_.device();
  programs_->fill(run);
  launches_.program(dtype, run, lanes, stream);
}

}  // namespace lanecast::peers
