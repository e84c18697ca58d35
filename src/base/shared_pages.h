// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: nameless, reserved for real, gone with the last process that maps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/file_descriptor.h"

namespace lanecast {

class Mapping {
 public:
  Mapping() = default;
  /// Maps bytes [offset, offset + bytes) with all pages present, so that no first touch costs time later.
  Mapping(const FileDescriptor& file, std::size_t offset, std::size_t bytes);
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Tells one file from every other of this host.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};
FileId id_of(const FileDescriptor& file);

/// New zeroed memory. Every page is reserved here: a host that is short of memory makes this throw instead of ending
/// the process by SIGBUS later.
FileDescriptor reserve_memory(std::size_t bytes);

/// Opens file descriptor `fd` of process `pid`; throws unless it is `id`.
FileDescriptor open_memory_of(int pid, int fd, const FileId& id);

}  // namespace lanecast
