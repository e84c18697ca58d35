// SPDX-License-Identifier: Apache-2.0
// The ranks of one host that run programs together, each launched as one kernel; also with those of other hosts.
#pragma once

#include <memory>

#include "peers/own_kernels.h"
#include "peers/program_memory.h"

namespace lanecast::peers {

class ProgramPeers {
 public:
  /// Collective over the members, who may be one. own: outlives it.
  ProgramPeers(std::shared_ptr<gpu::Device> device, const Bootstrap& members, const OwnKernels& own)
      : own_(own), memory_(std::move(device), members) {}

  /// The device is current. run: all but the ranks, their memory, the timeout and the state of this rank's kernels.
  void run(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const;

 private:
  OwnKernels own_;
  ProgramMemory memory_;
};

}  // namespace lanecast::peers
