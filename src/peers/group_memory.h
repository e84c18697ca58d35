// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group keep in each other's memory: flags, and slots of kernels, to and from which a caller's
// memory is copied; and the same of messages between two of them.
#pragma once

#include "device/gpu/kernels/message_arguments.h"
#include "peers/shared_memory.h"

namespace lanecast::peers {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

class GroupMemory {
 public:
  /// Collective over the members. channels: is there room for messages between two of them?
  GroupMemory(std::shared_ptr<gpu::Device> device, const Bootstrap& members, bool channels)
      : memory_(std::move(device), members,
                kInboxAt + gpu::inbox_bytes(members.size) + (channels ? message_inbox_bytes(members.size) : 0)) {}

  int rank() const { return memory_.rank(); }
  int size() const { return memory_.size(); }

  // Addresses in this process.
  gpu::Address control() const { return memory_.own(); }
  gpu::Address control(int member) const { return memory_.of(member); }
  gpu::Address flags(int member) const { return memory_.of(member) + kFlagsAt; }
  gpu::Address inbox(int member) const { return memory_.of(member) + kInboxAt; }
  gpu::Address message_control() const { return memory_.own() + kMessageControlAt; }
  gpu::Address message_flags(int member) const { return memory_.of(member) + kMessageFlagsAt; }
  gpu::Address message_inbox(int member) const { return inbox(member) + gpu::inbox_bytes(size()); }

 private:
  static constexpr std::size_t kMessageControlAt = aligned(sizeof(gpu::Control));
  static constexpr std::size_t kFlagsAt = kMessageControlAt + aligned(sizeof(gpu::MessageControl));
  static constexpr std::size_t kMessageFlagsAt = kFlagsAt + aligned(sizeof(gpu::Flags));
  static constexpr std::size_t kInboxAt = kMessageFlagsAt + aligned(sizeof(gpu::MessageFlags));

  static std::size_t message_inbox_bytes(int members) {
    return (static_cast<std::size_t>(members) - 1) * gpu::channel_bytes(members);
  }

  SharedMemory memory_;
};

}  // namespace lanecast::peers
