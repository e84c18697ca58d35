// SPDX-License-Identifier: Apache-2.0
// What the processes of a group tell each other, about windows and that one has given up: each has a page that the
// others read, so that nobody waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/bootstrap.h"
#include "base/process.h"
#include "base/shared_pages.h"
#include "device/gpu/driver.h"
#include "device/gpu/kernels/arguments.h"

namespace lanecast::peers {

/// One of a rank's windows.
struct WindowNotice {
  std::atomic<std::uint64_t> turn;  // odd: it is open, and peers map it; even: it is not, and they let go of it
  gpu::IpcHandle handle;            // while it is open
  std::uint64_t pieces;             // 0: the handle opens it; else so many, whose files each peer has been handed
  std::uint64_t offset;             // in what the handle opens, or the pieces make up
};

/// Of a socket without a place in any folder: the kernel's choice.
struct SocketName {
  std::uint32_t length;  // 0: there is none
  std::array<char, 16> text;
};

/// Zeroed as it is made, and written by one rank.
struct HostPage {
  std::atomic<std::uint64_t> news;      // how many turns the notices have taken together
  std::atomic<std::uint64_t> gone;      // this rank has let go of everything, for good
  std::atomic<std::uint64_t> given_up;  // its word ends kernels that wait here
  std::array<WindowNotice, gpu::kMostWindows> notices;
  SocketName desk;  // where this rank is handed files; from before all agree on their windows' tables
  // By rank and window: the turn that this rank has followed.
  std::array<std::array<std::atomic<std::uint64_t>, gpu::kMostWindows>, gpu::kMostRanks> followed;
};

class HostBoard {
 public:
  /// Collective over the members, processes of one host. Throws on all where it does on one.
  explicit HostBoard(const Bootstrap& members);

  int size() const { return static_cast<int>(pages_.size()); }
  HostPage& of(int member) const { return *reinterpret_cast<HostPage*>(pages_[member].data()); }
  /// That is a process; -1 where none is.
  int member_of(int process) const;
  /// It has let go of everything, or its process has ended.
  bool has_gone(int member) const;

  /// This rank ends the waits of its peers' kernels now.
  void give_up();
  /// Has any other one said so? What kernels here were to do may not be done then.
  bool any_given_up() const;

 private:
  int rank_;
  std::vector<Mapping> pages_;
  std::vector<Process> processes_;
};

}  // namespace lanecast::peers
