// SPDX-License-Identifier: Apache-2.0
#include "peers/program_peers.h"

#include "base/agreed.h"

namespace lanecast::peers {

ProgramPeers::ProgramPeers(const std::shared_ptr<gpu::Device>& device,
                           const std::shared_ptr<const gpu::Kernels>& kernels, const Bootstrap& members)
    : own_(agreed(members,
                  [&] {
                    return OwnPart{Launches(device, kernels), Faults(device),
                                   gpu::DeviceMemory(device, sizeof(gpu::Control))};
                  })),
      memory_(device, members) {}

void ProgramPeers::run(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const {
  run.timeout_ns = timeout_ns_;
  run.control = own_.control.address();
  run.fault = own_.faults.device();
  memory_.fill(run);
  own_.launches.program(dtype, run, lanes, stream);
}

}  // namespace lanecast::peers
