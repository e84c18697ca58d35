// SPDX-License-Identifier: Apache-2.0
#include "peers/program_peers.h"

namespace lanecast::peers {

void ProgramPeers::run(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const {
  run.timeout_ns = own_.faults.timeout_ns();
  run.control = own_.control;
  run.fault = own_.faults.device();
  memory_.fill(run);
  own_.launches.program(dtype, run, lanes, stream);
}

}  // namespace lanecast::peers
