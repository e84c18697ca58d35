// SPDX-License-Identifier: Apache-2.0
// A communicator of our own, and the bootstrap that MPI serves.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/bootstrap.h"
#include "transport/mpi/api.h"

namespace lanecast {

/// How ranks wait for each other while they come together.
struct MpiPatience {
  double timeout_s = 0;
  std::function<void()> interrupt;  // looks whether the user wants to stop; throws to end the wait
};

/// Freed with the object, unless MPI has ended before and taken it along.
class MpiCommunicator {
 public:
  /// Collective over `parent`, so that our messages never meet the user's.
  static std::shared_ptr<MpiCommunicator> duplicate(std::shared_ptr<MpiApi> api, MpiComm parent,
                                                    const MpiPatience& patience);
  /// Of all ranks of `bootstrap`, in its order: ranks of the world, which others of it need not know of.
  static std::shared_ptr<MpiCommunicator> among(std::shared_ptr<MpiApi> api, const Bootstrap& bootstrap,
                                                const MpiPatience& patience);
  /// Null until MPI has made it.
  using Making = std::function<std::shared_ptr<MpiCommunicator>()>;
  /// Collective over `ranks` of this communicator only. To be called until it is there, or given up: then MPI may wait
  /// for a member for ever, see MpiApi::create_group.
  Making group(std::span<const int> ranks) const;

  ~MpiCommunicator();
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  /// Keeps the communicator from being freed before MPI ends: messages that nobody received may still lie at a peer,
  /// and would meet the receives of a later communicator that was given the same context.
  void retire() {
    retired_ = true;
    api_->keep(handle_);
  }

  MpiApi& api() const { return *api_; }
  MpiComm handle() const { return handle_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  const MpiPatience& patience() const { return patience_; }
  /// Tags from 0 up that messages may use. The one above is that of group(): Open MPI makes a group's communicator by
  /// messages with this tag on the parent, which would meet receives that are posted there.
  int message_tags() const { return attendance_tag() - 1; }
  int attendance_tag() const { return api_->tag_upper_bound(); }

 private:
  MpiCommunicator(std::shared_ptr<MpiApi> api, MpiComm handle, MpiPatience patience);

  std::shared_ptr<MpiApi> api_;
  MpiComm handle_;
  int rank_;
  int size_;
  MpiPatience patience_;
  bool retired_ = false;
};

/// Its all-gather throws TimeoutError when it takes more than the communicator's timeout, and what its interrupt
/// throws.
Bootstrap mpi_bootstrap(std::shared_ptr<const MpiCommunicator> comm);

}  // namespace lanecast
