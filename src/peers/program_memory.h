// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group keep in each other's memory for their programs: words by which lanes tell each other how
// far they have come, and rings through which messages pass.
#pragma once

#include "device/gpu/kernels/program_arguments.h"
#include "peers/group_memory.h"

namespace lanecast::peers {

class ProgramMemory {
 public:
  /// Collective over the members.
  ProgramMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members)
      : memory_(std::move(device), members, kRingsAt + gpu::rings_bytes(static_cast<gpu::u32>(members.size))) {}

  /// The ranks, and addresses in this process.
  void fill(gpu::ProgramRun& run) const {
    run.rank = static_cast<gpu::u32>(memory_.rank());
    run.ranks = static_cast<gpu::u32>(memory_.size());
    run.ring_bytes = gpu::ring_bytes(run.ranks);
    run.program_control = memory_.own();
    for (gpu::u32 q = 0; q < run.ranks; ++q) {
      run.flags[q] = memory_.of(static_cast<int>(q)) + kFlagsAt;
      if (q == run.rank) continue;
      run.ring_to[q] = memory_.of(static_cast<int>(q)) + kRingsAt + gpu::rings_offset(q, run.rank, run.ranks);
      run.ring_from[q] = memory_.own() + kRingsAt + gpu::rings_offset(run.rank, q, run.ranks);
    }
  }

 private:
  static constexpr std::size_t kFlagsAt = aligned(sizeof(gpu::ProgramControl));
  static constexpr std::size_t kRingsAt = kFlagsAt + aligned(sizeof(gpu::ProgramFlags));

  SharedMemory memory_;
};

}  // namespace lanecast::peers
