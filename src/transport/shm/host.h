// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host come to share memory: one file that all of them map, with boards and an outbox for each and
// a lane for each ordered pair. Only the boards are reserved from the start; a lane is when its two ranks first talk.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "base/bootstrap.h"
#include "base/failure.h"
#include "base/process.h"
#include "base/shared_pages.h"
#include "transport/call_board.h"
#include "transport/shm/lane.h"
#include "transport/shm/layout.h"
#include "transport/shm/outbox.h"
#include "transport/shm/way.h"
#include "transport/wait_board.h"

namespace lanecast::shm {

inline constexpr std::size_t kMostRanks = 4096;  // of a host

/// What a rank lets all others of its host read.
struct Boards {
  alignas(kLine) std::atomic<OwnerState> state;  // of the rank
  FailureKind failure;                           // why it has aborted; set before the state
  char reason[1024];                             // the same in words
  /// Bits of the ranks of the host whose lanes, from and to this rank, it has reserved: others may read those lanes.
  std::array<std::atomic<std::uint64_t>, kMostRanks / 64> talks_to;
  CallBoard calls;
  WaitBoard waits;
  WayBoard ways;
};

/// One other rank of this host.
struct Neighbour {
  int rank = -1;
  Process process;
  ShmLane in;             // from it to me
  ShmLane out;            // from me to it
  std::size_t place = 0;  // among the ranks of the host
  const Boards* boards = nullptr;
  OutboxMemory outbox;                       // its own
  SingleCopy single_copy = SingleCopy::off;  // of what it sends me
};

class Host {
 public:
  /// Collective over all ranks of the communicator, also those that have their host for themselves. Where one rank
  /// fails, all throw.
  Host(const Bootstrap& bootstrap, std::vector<int> local_ranks, const ShmLayout& layout, SingleCopy single_copy);
  Host(const Host&) = delete;  // lanes point to its memory
  Host& operator=(const Host&) = delete;

  const std::vector<Neighbour>& neighbours() const { return neighbours_; }
  /// Null where there are no neighbours.
  Boards* boards() { return boards_; }
  /// This rank's own.
  const OutboxMemory& outbox() const { return outbox_; }
  /// Reserves both lanes between this rank and a neighbour; to be called before this rank looks at them.
  void open_lanes(const Neighbour& neighbour);
  /// Has the neighbour done that? Or this rank: it may look at them then.
  bool has_opened_lanes(const Neighbour& neighbour) const;
  /// Lets every neighbour see the state of this rank; the first one to be announced stays.
  void announce(OwnerState state, const Failure& cause);

 private:
  std::vector<Neighbour> neighbours_;
  Mapping memory_;
  std::size_t place_ = 0;  // of this rank, among the ranks of the host
  Boards* boards_ = nullptr;
  OutboxMemory outbox_;
};

}  // namespace lanecast::shm
