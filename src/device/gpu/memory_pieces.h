// SPDX-License-Identifier: Apache-2.0
// Memory that a program has mapped by itself (cuMemCreate, cuMemMap), as NCCL's allocator and torch's expandable
// segments do: physical pieces side by side, which other processes map by a file of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file_descriptor.h"
#include "device/gpu/device.h"

namespace lanecast::gpu {

/// Those that a range of addresses touches.
class MemoryPieces {
 public:
  static constexpr std::size_t kMost = 253;  // files that Linux hands over at once

  /// Throws UsageError, as a clause that says why no other process can map the range.
  MemoryPieces(std::shared_ptr<Device> device, Address begin, std::size_t bytes);

  Address begin() const { return begin_; }  // of the first one
  const std::vector<std::uint64_t>& bytes_of_each() const { return bytes_; }
  /// New ones, which keep the physical memory. Throws TransportError.
  std::vector<FileDescriptor> files() const;

 private:
  std::shared_ptr<Device> device_;
  Address begin_ = 0;
  std::vector<std::uint64_t> bytes_;
};

/// A peer process' pieces, mapped side by side so that this device reaches them.
class OpenedPieces {
 public:
  /// files: of each piece, which may be closed afterwards. Throws TransportError.
  OpenedPieces(std::shared_ptr<Device> device, std::span<const std::uint64_t> bytes_of_each,
               std::span<const FileDescriptor> files);
  OpenedPieces(OpenedPieces&& other) noexcept;
  ~OpenedPieces();

  Address address() const { return begin_; }

 private:
  explicit OpenedPieces(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  std::shared_ptr<Device> device_;
  Address begin_ = 0;
  std::size_t reserved_ = 0;
  std::vector<std::uint64_t> mapped_;  // bytes of each
};

}  // namespace lanecast::gpu
