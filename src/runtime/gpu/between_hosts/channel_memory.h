// SPDX-License-Identifier: Apache-2.0
// What a rank has for messages with a rank of another host: slots on its GPU and in its host's memory, and words by
// which its kernels and its proxy tell each other how far they are. The other rank has its own.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/gpu/copied_memory.h"
#include "peers/message_kernels.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"

namespace lanecast {

/// A channel's half here, as a proxy reaches it.
struct ChannelHalf {
  gpu::CarriedFlags* flags = nullptr;
  std::array<std::byte*, 2> slots{};  // on the GPU, and in the host's memory
  std::array<std::uint32_t, 2> depth{};
  std::size_t least_on_gpu = 0;  // bytes of a message

  bool on_host(std::size_t message_bytes) const { return message_bytes < least_on_gpu; }
  /// The memory of pieces that lie together, from the `first` of the channel on.
  std::byte* at(std::uint64_t first, bool on_host) const {
    return slots[on_host ? 1 : 0] + first % depth[on_host ? 1 : 0] * gpu::kCarriedSlotBytes;
  }
  /// Acquire: pairs with the kernel's release. What it publishes is seen, or has been read.
  static std::uint64_t heard(const gpu::u64& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  /// Release: a kernel that sees the word sees what has come.
  static void tell(gpu::u64& word, std::uint64_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }
};

class ChannelMemory {
 public:
  /// The device is current. Takes memory: the driver may wait for what the device does.
  ChannelMemory(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& where, int peer);

  const ChannelHalf& to() const { return to_; }
  const ChannelHalf& from() const { return from_; }
  peers::MessageRoute route() const { return {ends_->address(), 0}; }

 private:
  gpu::ChannelEnd end_of(const ChannelHalf& half, std::size_t number) const;
  ChannelHalf half_of(std::size_t number) const;
  std::size_t slots_at(std::size_t number, bool on_host) const;

  std::size_t least_on_gpu_;
  std::uint32_t staged_depth_;
  gpu::PinnedMemory flags_, on_host_;
  std::unique_ptr<gpu::DeviceMemory> on_device_;  // null: none lie there
  std::optional<RegisteredMemory> registered_;    // goes before the memory
  gpu::DeviceMemory states_;
  ChannelHalf to_, from_;
  std::unique_ptr<gpu::CopiedMemory> ends_;
};

}  // namespace lanecast
