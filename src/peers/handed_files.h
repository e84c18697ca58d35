// SPDX-License-Identifier: Apache-2.0
// Open files that the processes of a host hand each other, each beside a note: nobody waits, neither who hands over nor
// who looks what has come. By sockets without a place in any folder; opening /proc/PID/fd again would give another file
// where it is a driver's, and to fetch it by ptrace's rights is not allowed among siblings.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bootstrap.h"
#include "base/file_descriptor.h"

namespace lanecast::peers {

class HandedFiles {
 public:
  static constexpr std::size_t kMostFiles = 253;   // of one note, as Linux has it
  static constexpr std::size_t kMostBytes = 4096;  // of the note

  /// Collective over the members, processes of one host. Throws on all where it does on one. Where a sandbox forbids
  /// such sockets, hand() says so.
  explicit HandedFiles(const Bootstrap& members);

  /// False: the system has no room for more files on their way; ask again later. The files stay the caller's. Throws
  /// TransportError where the member gets none.
  bool hand(int member, std::span<const std::byte> note, std::span<const FileDescriptor> files) const;

  struct HandedOver {
    int member = -1;
    std::vector<std::byte> note;
    std::vector<FileDescriptor> files;  // fewer where this process has too many open
  };
  /// What has come since.
  std::vector<HandedOver> take();

 private:
  /// Where a member is reached, by a name of the kernel's choice.
  struct Desk {
    int process = 0;
    unsigned length = 0;  // 0: nowhere
    std::array<char, 16> name{};
  };
  struct Visitor {
    FileDescriptor socket;
    int member;
  };
  Desk open_desk();
  void let_visitors_in();

  FileDescriptor desk_;
  std::vector<Desk> all_;
  std::vector<Visitor> visitors_;  // who have not said anything yet
};

}  // namespace lanecast::peers
