// SPDX-License-Identifier: Apache-2.0
// Memory of a group's ranks that their peers reach: each rank opens and closes windows as it likes, the others map them
// when they come by, and a rank offers one to a call (device/gpu/kernels/offers.cuh) once all have.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "device/gpu/stream.h"
#include "peers/host_board.h"
#include "peers/window_files.h"
#include "peers/window_memory.h"

namespace lanecast::peers {

class Windows {
 public:
  /// Collective over the members. Throws on all where it does on one. board: of these, outlives it.
  Windows(std::shared_ptr<gpu::Device> device, const Bootstrap& members, HostBoard& board);
  /// Waits for this device's work, and for the members to let go of this one's memory, for a moment.
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  /// Opens a window; no other rank need do so. False where there are too many, or the memory is another GPU's. Throws
  /// TransportError where its files cannot be had, or handed over.
  bool open(std::shared_ptr<WindowMemory> memory);
  /// Does what the members' notices ask for, and takes note of what they have done. Blocks for nobody.
  void look();
  bool empty() const { return used_ == 0; }

  /// As gpu::Offer has it; 0 for what lies in no window that all members have mapped.
  gpu::u64 place(const void* begin, std::size_t bytes) const;
  /// gpu::WindowTable of this member.
  gpu::Address table() const { return table_.memory.address(); }
  /// How many calls have read and written at the peers.
  std::uint64_t taken() const;

 private:
  struct OwnWindows {
    std::shared_ptr<WindowMemory> memory;  // null: the number is free
    std::uint64_t turn = 0;
    bool usable = false;       // all members have mapped it
    std::vector<int> to_hand;  // members without its files so far, before which nobody hears of it
  };
  /// What a member has mapped of another one.
  using Opened = std::variant<std::monostate, gpu::OpenedMemory, gpu::OpenedPieces>;

  /// gpu::WindowTable, which each block of an offer reads: in the host's memory they would take a microsecond each, one
  /// after another.
  struct Table {
    gpu::DeviceMemory memory;
    gpu::OwnedStream copies;
  };
  /// Returns when it is done, and waits for nobody else's work.
  void copy(gpu::Address to, gpu::Address from, std::size_t bytes) const;
  void take_turn(std::size_t number, int turns = 1);
  /// Tells the members of an own window, once they have its files.
  void announce(std::size_t number);
  /// Of one that they have not heard of; those who have its files let go of them.
  void give_up(std::size_t number);
  bool all_follow(std::size_t number) const;
  void look_at_own();
  void follow(int member);
  /// Where it lies here.
  gpu::Address map(Opened& opened, int member, std::size_t number, std::uint64_t turn);
  bool all_have_gone() const;
  /// Peers may still have it mapped: it stays until this process ends.
  void leave_mapped();

  std::shared_ptr<gpu::Device> device_;
  int rank_;
  HostBoard& board_;
  WindowFiles files_;  // before the table: whose rank has one, has said where it is handed files
  Table table_;
  std::vector<OwnWindows> own_;  // by number
  std::size_t used_ = 0;
  std::vector<std::uint64_t> news_;          // by member: what has been followed
  std::vector<std::vector<Opened>> opened_;  // by member and number
};

}  // namespace lanecast::peers
