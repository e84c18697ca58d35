// SPDX-License-Identifier: Apache-2.0
// Memory of this rank's GPU that peers may map: as windows of any number of groups, each of which keeps it until its
// peers have let go of it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "device/gpu/memory.h"
#include "device/gpu/memory_pieces.h"

namespace lanecast::peers {

class WindowMemory {
 public:
  /// New memory, zeroed.
  WindowMemory(std::shared_ptr<gpu::Device> device, std::size_t bytes);
  /// Memory that is there, which `keep` keeps. Throws UsageError where no other process can map it.
  WindowMemory(std::shared_ptr<gpu::Device> device, gpu::Address begin, std::size_t bytes, std::shared_ptr<void> keep);

  gpu::Address begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }
  const gpu::Device& device() const { return *device_; }
  /// Of memory that the program has mapped by itself; null: a handle opens it.
  const gpu::MemoryPieces* pieces() const { return pieces_ ? &*pieces_ : nullptr; }
  /// Of the allocation that it lies in, and where; with pieces, where in these.
  const gpu::IpcHandle& handle() const { return handle_; }
  std::size_t offset() const { return offset_; }

  /// Waits for this device's work; from now on no call is made on it, and whoever has it mapped lets go. Any thread.
  void retire();
  /// It keeps itself, and is never freed.
  void leave_mapped(std::shared_ptr<WindowMemory> self) { self_.store(std::move(self)); }
  bool retired() const { return retired_.load(std::memory_order_acquire); }  // pairs with retire()

 private:
  std::shared_ptr<gpu::Device> device_;
  std::optional<gpu::DeviceMemory> own_;
  std::shared_ptr<void> keep_;
  gpu::Address begin_;
  std::size_t bytes_, offset_ = 0;
  gpu::IpcHandle handle_{};
  std::optional<gpu::MemoryPieces> pieces_;
  std::atomic<bool> retired_{false};
  std::atomic<std::shared_ptr<WindowMemory>> self_;
};

}  // namespace lanecast::peers
