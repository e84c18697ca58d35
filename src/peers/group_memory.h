// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group keep in each other's memory for collectives: flags, and slots of kernels, to and from which
// a caller's memory is copied.
#pragma once

#include "device/gpu/kernels/arguments.h"
#include "peers/shared_memory.h"

namespace lanecast::peers {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

class GroupMemory {
 public:
  /// Collective over the members.
  GroupMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members)
      : memory_(std::move(device), members, kInboxAt + gpu::inbox_bytes(members.size)) {}

  int rank() const { return memory_.rank(); }
  int size() const { return memory_.size(); }

  // Addresses in this process.
  gpu::Address control() const { return memory_.own(); }
  gpu::Address control(int member) const { return memory_.of(member); }
  gpu::Address flags(int member) const { return memory_.of(member) + kFlagsAt; }
  gpu::Address inbox(int member) const { return memory_.of(member) + kInboxAt; }

 private:
  static constexpr std::size_t kFlagsAt = aligned(sizeof(gpu::Control));
  static constexpr std::size_t kInboxAt = kFlagsAt + aligned(sizeof(gpu::Flags));

  SharedMemory memory_;
};

}  // namespace lanecast::peers
