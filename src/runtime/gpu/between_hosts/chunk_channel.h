// SPDX-License-Identifier: Apache-2.0
// One chunk in flight between a GPU and its host's transports: a stream that takes the chunk's steps one after the
// other, memory in which its messages lie, and two counters by which device and host wait for each other.
//
//   device   says: chunk begun | message k can be sent (for each send, in the device's order) | chunk ended
//   host     lets go on: the memory is free | message k has come (for each receive, in the device's order)
//
// Both count over all chunks that a channel ever takes, so nothing is ever reset.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/memory.h"
#include "device/gpu/stream.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"

namespace lanecast {

class ChunkChannel {
 public:
  static constexpr std::size_t kMessageBytes = std::size_t{16} << 20;
  static constexpr std::size_t kScratchBytes = std::size_t{16} << 20;

  /// on_device: do some messages lie there? Others, and short ones, lie on the host.
  ChunkChannel(const std::shared_ptr<gpu::Device>& device, bool on_device)
      : counters_(device, sizeof(Counters)),
        on_host_(device, kMessageBytes),
        scratch_(device, kScratchBytes),
        stream_(device),
        ended_(device) {
    if (on_device) on_device_ = std::make_unique<gpu::DeviceMemory>(device, kMessageBytes);
  }

  gpu::Stream stream() const { return stream_.get(); }
  gpu::Event ended() const { return ended_.get(); }
  /// The memory of messages, as transports take it.
  std::byte* messages(bool on_device) const {
    return on_device ? reinterpret_cast<std::byte*>(on_device_->address()) : on_host_.host();
  }
  /// The same and the counters, as the device sees them.
  gpu::Address device_messages(bool on_device) const { return on_device ? on_device_->address() : on_host_.device(); }
  /// Of messages that lie on the device; null where none do.
  const gpu::DeviceMemory* memory_on_device() const { return on_device_.get(); }
  gpu::Address said_at() const { return counters_.device() + offsetof(Counters, said); }
  gpu::Address go_on_at() const { return counters_.device() + offsetof(Counters, go_on); }
  gpu::Address scratch() const { return scratch_.address(); }

  /// Acquire: pairs with the device's release, so that messages it has written are seen.
  std::uint64_t said() const { return __atomic_load_n(&counters().said, __ATOMIC_ACQUIRE); }
  /// Release: pairs with the device's acquire, so that it sees messages that have come.
  void go_on(std::uint64_t count) { __atomic_store_n(&counters().go_on, count, __ATOMIC_RELEASE); }

  struct Count {
    std::uint64_t said = 0, go_on = 0;
  };
  Count enqueued;  // up to what the device's work goes; of the thread that enqueues
  Count served;    // up to what the host has followed it; of the thread that moves messages

 private:
  struct Counters {  // each by itself on a cache line: two of them write
    alignas(128) std::uint64_t said;
    alignas(128) std::uint64_t go_on;
  };
  Counters& counters() const { return *reinterpret_cast<Counters*>(counters_.host()); }

  gpu::PinnedMemory counters_;
  gpu::PinnedMemory on_host_;
  std::unique_ptr<gpu::DeviceMemory> on_device_;
  gpu::DeviceMemory scratch_;
  gpu::OwnedStream stream_;
  gpu::OwnedEvent ended_;
};

/// As many chunks are in flight.
inline constexpr int kChunkChannels = 4;

class ChunkChannels {
 public:
  ChunkChannels(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& places) {
    for (int k = 0; k < kChunkChannels; ++k) {
      channels_.emplace_back(device, places.any());
      if (const auto* const memory = channels_.back().memory_on_device()) registered_.emplace_back(places, *memory);
    }
  }
  /// In turns.
  ChunkChannel& operator[](std::uint64_t turn) { return channels_[turn % kChunkChannels]; }

 private:
  std::vector<ChunkChannel> channels_;
  std::vector<RegisteredMemory> registered_;  // goes before the memory
};

}  // namespace lanecast
