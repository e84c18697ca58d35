// SPDX-License-Identifier: Apache-2.0
// The ranks of one host that run programs together, also with those of other hosts.
#pragma once

#include <memory>
#include <optional>

#include "peers/faults.h"
#include "peers/launches.h"
#include "peers/program_memory.h"

namespace lanecast::peers {

class ProgramPeers {
 public:
  /// Collective over the members, who may be one. Throws on all where it does on one.
  ProgramPeers(const std::shared_ptr<gpu::Device>& device, const std::shared_ptr<const gpu::Kernels>& kernels,
               const Bootstrap& members);

  int size() const { return memory_.size(); }
  /// run: all but what the members know.
  void run(DType dtype, gpu::ProgramRun run, int lanes, gpu::Stream stream) const;
  /// Of the waits of the kernels that are enqueued from now on.
  void set_timeout(double timeout_s) { timeout_ns_ = patience_ns(timeout_s); }

  std::optional<PeerFault> fault() const { return own_.faults.met(); }
  /// Own kernels stop waiting.
  void poison() { own_.faults.poison(); }

 private:
  /// What a member makes by itself.
  struct OwnPart {
    Launches launches;
    Faults faults;
    gpu::DeviceMemory control;
  };
  OwnPart own_;
  ProgramMemory memory_;
  gpu::u64 timeout_ns_ = 0;
};

}  // namespace lanecast::peers
