// SPDX-License-Identifier: Apache-2.0
// A GPU's buffer whose slices several processes move: its owner, and helpers that map it while they do.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "device/gpu/memory.h"
#include "device/gpu/stream.h"

namespace lanecast::peers {

class SliceMemory {
 public:
  /// The owner's view. Waits for what the stream holds, so that what the buffer is to hold is there. Throws UsageError
  /// for memory that no other process can map, and for a stream that a graph captures.
  SliceMemory(const std::shared_ptr<gpu::Device>& device, gpu::Address begin, std::size_t bytes, gpu::Stream behind);
  /// A helper's view, of what the owner says of its own; it unmaps the memory when it goes. Throws UsageError where
  /// this process does not see the GPU.
  SliceMemory(const std::string& bus_id, const gpu::IpcHandle& handle, std::size_t offset);

  const gpu::IpcHandle& handle() const { return handle_; }
  std::size_t offset() const { return offset_; }
  std::string bus_id() const { return device_->pci_bus_id(); }
  int ordinal() const { return device_->ordinal(); }
  /// As this process knows it.
  gpu::Address address() const { return begin_; }
  /// Of nobody else's.
  gpu::Stream stream() const { return stream_.get(); }

  /// Bytes [at, at + bytes) of the buffer. Return when it is done, and wait for nobody else's work.
  void read(std::byte* into, std::size_t at, std::size_t bytes) { copy(address_of(into), begin_ + at, bytes); }
  void write(const std::byte* from, std::size_t at, std::size_t bytes) { copy(begin_ + at, address_of(from), bytes); }

 private:
  static gpu::Address address_of(const std::byte* host) { return reinterpret_cast<gpu::Address>(host); }
  void copy(gpu::Address to, gpu::Address from, std::size_t bytes);

  std::shared_ptr<gpu::Device> device_;
  gpu::IpcHandle handle_{};
  std::size_t offset_ = 0;
  std::optional<gpu::OpenedMemory> opened_;
  gpu::OwnedStream stream_;
  gpu::Address begin_ = 0;
};

}  // namespace lanecast::peers
