// SPDX-License-Identifier: Apache-2.0
// The memory of this rank that its host's other GPUs reach, and which of it a call's buffers lie in.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "peers/windows.h"
#include "runtime/gpu/in_host_call.h"
#include "runtime/request/call.h"

namespace lanecast {

class ReachableBuffers {
 public:
  /// Collective over all ranks. Throws on all where it does on one. board: of these, outlives it.
  ReachableBuffers(std::shared_ptr<gpu::Device> device, const Bootstrap& bootstrap, peers::HostBoard& board);

  /// Collective. Memory in which the peers read and write: calls on it need no copy to and from staging.
  std::shared_ptr<peers::SharedMemory> allocate(const Bootstrap& bootstrap, std::size_t bytes);
  /// As peers::Windows has them; this rank's own affair.
  bool open_window(std::shared_ptr<peers::WindowMemory> memory) { return windows_.open(std::move(memory)); }
  void look() { windows_.look(); }
  std::uint64_t calls_by_windows() const { return windows_.taken(); }

  /// A call's buffers and where they lie, without an offer.
  InHostBuffers of(const Call& call) const;
  /// For an offer of them: gpu::WindowTable of this rank.
  gpu::Address table() const { return windows_.table(); }

 private:
  /// Null where the memory is none of it.
  const peers::SharedMemory* symmetric(const void* begin, std::size_t bytes) const;

  std::shared_ptr<gpu::Device> device_;
  int rank_, size_;
  peers::Windows windows_;
  std::uint64_t allocations_ = 0;  // of symmetric memory
  std::list<std::weak_ptr<peers::SharedMemory>> symmetric_;
};

}  // namespace lanecast
