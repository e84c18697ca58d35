// SPDX-License-Identifier: Apache-2.0
// MPI's own non-blocking collectives, on communicators of subgroups.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/groups.h"
#include "transport/mpi/communicator.h"

namespace lanecast {

class MpiGroups final : public Groups {
 public:
  explicit MpiGroups(std::shared_ptr<MpiCommunicator> comm);

  bool runs(Kind kind, DType dtype, ReduceOp op) const override;
  std::optional<int> open(std::span<const int> ranks, std::uint32_t ordinal) override;
  bool has(std::span<const int> ranks, std::uint32_t ordinal) const override {
    return opened_.contains({{ranks.begin(), ranks.end()}, ordinal});
  }
  void post(GroupCall& call) override;
  void progress(std::vector<GroupCall*>& done) override;

  /// Is no call under way?
  bool idle() const { return requests_->empty(); }
  /// See MpiRequests::abandon; the communicators are of no further use.
  void abandon();

 private:
  // Requests go before the communicators they run on, so they are declared after.
  const std::shared_ptr<MpiCommunicator> comm_;
  std::vector<std::shared_ptr<MpiCommunicator>> groups_;
  using Key = std::pair<std::vector<int>, std::uint32_t>;  // ranks and ordinal
  std::map<Key, int> opened_;
  std::map<Key, MpiCommunicator::Making> opening_;
  std::unique_ptr<MpiRequests> requests_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
