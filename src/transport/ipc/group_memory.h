// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group keep in each other's memory: flags, slots of kernels, and staging for copy engines, to and
// from which a caller's memory is copied.
#pragma once

#include "device/gpu/kernels/arguments.h"
#include "transport/ipc/shared_memory.h"

namespace lanecast::ipc {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

class GroupMemory {
 public:
  /// Collective over the members. staging_bytes: of each.
  GroupMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members, std::size_t staging_bytes)
      : memory_(std::move(device), members, kInboxAt + gpu::inbox_bytes(members.size) + staging_bytes),
        staging_bytes_(staging_bytes) {}

  int rank() const { return memory_.rank(); }
  int size() const { return memory_.size(); }
  std::size_t staging_bytes() const { return staging_bytes_; }

  // Addresses in this process.
  gpu::Address control() const { return memory_.own(); }
  gpu::Address flags(int member) const { return memory_.of(member) + kFlagsAt; }
  gpu::Address inbox(int member) const { return memory_.of(member) + kInboxAt; }
  gpu::Address staging(int member) const { return inbox(member) + gpu::inbox_bytes(size()); }

 private:
  static constexpr std::size_t kFlagsAt = aligned(sizeof(gpu::Control));
  static constexpr std::size_t kInboxAt = kFlagsAt + aligned(sizeof(gpu::Flags));

  SharedMemory memory_;
  std::size_t staging_bytes_;
};

}  // namespace lanecast::ipc
