// SPDX-License-Identifier: Apache-2.0
// Memory of equal size on the GPU of each rank of a group, in which all of them read and write. Nothing else of a
// process is exported, so nothing can be freed under a peer.
#pragma once

#include <memory>
#include <vector>

#include "base/bootstrap.h"
#include "device/gpu/memory.h"
#include "peers/lent_memory.h"

namespace lanecast::peers {

class SharedMemory {
 public:
  /// Collective over the members, which are processes of one host. Zeroed. Throws on all where it does on one.
  /// ordinal: equal on all, another one for each memory.
  SharedMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members, std::size_t bytes,
               std::uint64_t ordinal = 0);
  /// Waits for this device's work, and for the members to let go of this one's memory, for a moment.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bases_.size()); }
  std::size_t bytes() const { return own_->bytes(); }
  std::uint64_t ordinal() const { return ordinal_; }
  /// Where the memory of a member begins, in this process.
  gpu::Address of(int member) const { return bases_[member]; }
  gpu::Address own() const { return bases_[rank_]; }

 private:
  void say_goodbye();

  std::shared_ptr<gpu::Device> device_;
  int rank_;
  std::uint64_t ordinal_;
  std::unique_ptr<LentMemory> own_;
  std::vector<gpu::OpenedMemory> opened_;
  std::vector<gpu::Address> bases_;
};

}  // namespace lanecast::peers
