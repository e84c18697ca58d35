// SPDX-License-Identifier: Apache-2.0
// Open files that the processes of a host hand each other, each beside a note: nobody waits, neither who hands over nor
// who looks what has come. By sockets without a place in any folder; opening /proc/PID/fd again would give another file
// where it is a driver's, and to fetch it by ptrace's rights is not allowed among siblings.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/file_descriptor.h"
#include "peers/host_board.h"

namespace lanecast::peers {

class HandedFiles {
 public:
  static constexpr std::size_t kMostFiles = 253;   // of one note, as Linux has it
  static constexpr std::size_t kMostBytes = 4096;  // of the note

  /// Says on the board where this rank is reached. Members hand over once they know that all have said so. Where a
  /// sandbox forbids such sockets, hand() says so.
  HandedFiles(HostBoard& board, int rank);

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
  struct Visitor {
    FileDescriptor socket;
    int member;
  };
  void let_visitors_in();

  HostBoard& board_;
  FileDescriptor desk_;
  std::vector<Visitor> visitors_;  // who have not said anything yet
};

}  // namespace lanecast::peers
