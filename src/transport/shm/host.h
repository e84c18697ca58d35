// SPDX-License-Identifier: Apache-2.0
// How the ranks of one host come to share memory: each reserves an inbox with a lane for every other rank, and maps
// its own lane in theirs.
#pragma once

#include <vector>

#include "base/bootstrap.h"
#include "base/process.h"
#include "base/shared_pages.h"
#include "transport/call_board.h"
#include "transport/shm/lane.h"
#include "transport/shm/layout.h"
#include "transport/shm/outbox.h"
#include "transport/shm/way.h"
#include "transport/wait_board.h"

namespace lanecast::shm {

/// What a rank lets all others of its host read.
struct Boards {
  CallBoard calls;
  WaitBoard waits;
  WayBoard ways;
};

/// One other rank of this host.
struct Neighbour {
  int rank = -1;
  Process process;
  Lane in;   // from it to me, in my inbox
  Lane out;  // from me to it, in its inbox
  const Boards* boards = nullptr;
  OutboxMemory outbox;                       // its own
  SingleCopy single_copy = SingleCopy::off;  // of what it sends me
};

class Host {
 public:
  /// Collective over all ranks of the communicator, also those that have their host for themselves. Where one rank
  /// fails, all throw.
  Host(const Bootstrap& bootstrap, std::vector<int> local_ranks, const Layout& layout, SingleCopy single_copy);

  const std::vector<Neighbour>& neighbours() const { return neighbours_; }
  /// Null where there are no neighbours.
  Boards* boards() { return boards_; }
  /// This rank's own.
  const OutboxMemory& outbox() const { return outbox_; }
  /// Lets every neighbour see the state of this rank; the first one to be announced stays.
  void announce(OwnerState state, const Failure& cause);

 private:
  std::vector<Neighbour> neighbours_;
  Mapping inbox_;  // this rank's boards, its outbox, then a lane for each neighbour
  Boards* boards_ = nullptr;
  OutboxMemory outbox_;
  std::vector<Mapping> neighbouring_;  // parts of the neighbours' inboxes
};

}  // namespace lanecast::shm
