// SPDX-License-Identifier: Apache-2.0
// A leader's helpers: each moves a slice of its leader's calls on the host's memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/own_process.h"
#include "helpers/answers.h"
#include "helpers/member.h"
#include "helpers/trials.h"
#include "runtime/communicator/communicator.h"

namespace lanecast::helpers {

class Crew {
 public:
  /// core: the leaders' communicator, which outlives it. Collective over it.
  Crew(Communicator& core, std::vector<Member> members);
  /// Calls under way end with an error, and so do processes that no split communicator has.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Why calls go by the leader alone, for people; empty where they do not.
  const std::string& obstacle() const { return obstacle_; }
  /// May several processes move it? Else it goes by the communicator itself.
  bool takes(const Call& call) const;

  // As the communicator's own, by as many processes as were found to be fastest; the first calls of a size try. Takes
  // what takes() says.
  void run(const Call& call, const Interrupt& interrupt, std::optional<BesideOthers> beside);
  std::shared_ptr<Work> start(const Call& call, const Interrupt& interrupt);
  /// As the communicator's, of what start() has given.
  std::string waits_for(const Work& work) const { return answers_.waits_for(work); }

  /// The helpers of a child, which are the same processes; told before the communicator is split.
  std::vector<Member> split(int color, int key);

 private:
  int processes() const { return 1 + static_cast<int>(members_.size()); }
  ProcessTrials::Class class_of(const Call& call) const;
  bool goes_by_mpi(const Call& call);
  ProcessTrials::Trial number_for(const Call& call, const Interrupt& interrupt);
  void settle_number(ProcessTrials::Class which, const Interrupt& interrupt);
  Call settled(Call call, int processes);
  SlicedCall tell(const Call& call, ProcessTrials::Trial trial);
  template <class Move>
  void move_own(Work& own, const Move& move);
  std::function<void(double)> timing(const Call& call, ProcessTrials::Trial trial);
  void wait(const std::shared_ptr<Work>& whole, const Interrupt& interrupt);
  bool may_copy();

  Communicator& core_;
  const OwnProcess own_;
  std::vector<Member> members_;
  std::string obstacle_;
  ProcessTrials trials_;
  std::mutex mutex_;  // who calls first tells the helpers first; guards what follows
  std::map<std::tuple<Kind, std::size_t, DType>, std::pair<std::string, int>> chosen_;  // algorithm and chunks
  std::map<std::tuple<Kind, std::size_t, DType, ReduceOp>, bool> by_mpi_;
  Answers answers_;
};

}  // namespace lanecast::helpers
