// SPDX-License-Identifier: Apache-2.0
// The files of windows over memory in pieces, on their way from the rank that opens one to those that map it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/gpu/memory_pieces.h"
#include "peers/handed_files.h"
#include "peers/host_board.h"

namespace lanecast::peers {

class WindowFiles {
 public:
  /// As HandedFiles.
  WindowFiles(HostBoard& board, int rank)
      : board_(board), files_(board, rank), handed_(static_cast<std::size_t>(board.size())) {}

  /// A window by its number, and the turn by which its rank opens it.
  struct WindowTurn {
    std::uint64_t number, turn;
  };
  /// Takes those members out of `to` that have the files now, or have gone. Throws TransportError where the files
  /// cannot be had, or one of them gets none.
  void hand(const gpu::MemoryPieces& pieces, const WindowTurn& window, std::vector<int>& to);

  /// Takes what has come.
  void look();
  /// Throws TransportError where it has not, or cannot be mapped.
  gpu::OpenedPieces open(const std::shared_ptr<gpu::Device>& device, int member, const WindowTurn& window) const;
  /// Closes the files of that turn of a member's window, and of turns before it.
  void forget(int member, const WindowTurn& window);

 private:
  struct Handed {
    WindowTurn window;
    std::vector<std::uint64_t> bytes_of_each;
    std::vector<FileDescriptor> files;
  };

  HostBoard& board_;
  HandedFiles files_;
  std::vector<std::vector<Handed>> handed_;  // by member
};

}  // namespace lanecast::peers
