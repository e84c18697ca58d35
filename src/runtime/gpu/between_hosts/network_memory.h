// SPDX-License-Identifier: Apache-2.0
// Where a rank's programs and its proxy meet: slots of messages, on the GPU and in pinned memory of the host, and words
// by which either says how far it is. Calls of a communicator use it one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/gpu/memory.h"
#include "program/program.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"

namespace lanecast {

/// What a program takes of it.
struct NetworkRoom {
  std::size_t on_device = 0, on_host = 0;  // bytes of slots
  std::size_t told = 0, says = 0;          // bytes of words, in the host's memory
  std::size_t heard = 0;                   // of those that lanes pass on

  bool holds(const NetworkRoom& other) const {
    return on_device >= other.on_device && on_host >= other.on_host && told >= other.told && says >= other.says &&
           heard >= other.heard;
  }
};

NetworkRoom room_for(const Program& program);

class NetworkMemory {
 public:
  NetworkMemory(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& where, const NetworkRoom& room);

  const NetworkRoom& room() const { return room_; }
  /// Adds what a launch has to know of it.
  void fill(gpu::ProgramRun& run) const;
  /// As transports take it.
  std::byte* slots(bool on_host) const {
    return on_host ? on_host_.host() : reinterpret_cast<std::byte*>(on_device_->address());
  }

  /// Have so many lanes of the launch of that number ended?
  bool has_ended(std::uint32_t launch, int lanes) const;
  /// What lanes say. Acquire by who reads: pairs with the kernel's release() of what was put. What was taken has been
  /// read before, see let_go().
  const std::uint64_t* says() const { return words() + kToldAt + room_.told / kWord; }
  /// Release: the kernel that sees the count sees a message that has come.
  void tell(std::size_t which, std::uint64_t word) const {
    __atomic_store_n(words() + kToldAt + which, word, __ATOMIC_RELEASE);
  }

 private:
  friend NetworkRoom room_for(const Program& program);
  static constexpr std::size_t kWord = sizeof(std::uint64_t);  // bytes
  static constexpr std::size_t kApart = 16;  // words: a line of a cache, as either side writes lines of its own
  static constexpr std::size_t kEndedAt = 0, kToldAt = kEndedAt + gpu::kMostLanes;
  static constexpr std::size_t in_lines(std::size_t words) { return (words + kApart - 1) / kApart * kApart; }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(words_.host()); }

  NetworkRoom room_;
  gpu::PinnedMemory words_;
  gpu::DeviceMemory heard_;
  gpu::PinnedMemory on_host_;
  std::unique_ptr<gpu::DeviceMemory> on_device_;
  std::vector<RegisteredMemory> registered_;  // goes before the memory
};

}  // namespace lanecast
