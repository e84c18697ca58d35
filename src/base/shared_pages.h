// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: nameless, reserved for real before it is used, gone with the last process that maps it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace lanecast {

/// The host, or a limit that somebody has set, has no memory left.
struct MemoryShortage : TransportError {
  using TransportError::TransportError;
};

/// A whole file of shared memory, at some address of this process.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const FileDescriptor& file, std::size_t bytes);
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Mapping();
  std::byte* data() const { return data_; }

  /// Has the system put pages behind [begin, begin + bytes). To be called before any access by any process: a host that
  /// is short of memory makes this throw MemoryShortage, where the access would end the process by SIGBUS or have the
  /// OOM killer end one. Ranges may overlap, and several processes may reserve the same one at once.
  void reserve(const std::byte* begin, std::size_t bytes) const;

 private:
  void swap(Mapping& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  FileDescriptor file_;  // kept open only where the kernel reserves by nothing else
};

/// Tells one file from every other of this host.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};
FileId id_of(const FileDescriptor& file);

/// A new file of zeros, for which no memory is reserved yet.
FileDescriptor make_memory(std::size_t bytes);

/// Opens file descriptor `fd` of process `pid`; throws unless it is `id`.
FileDescriptor open_memory_of(int pid, int fd, const FileId& id);

}  // namespace lanecast
