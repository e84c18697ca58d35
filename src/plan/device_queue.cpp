// SPDX-License-Identifier: Apache-2.0
#include "plan/device_queue.h"

#include <deque>
#include <queue>
#include <utility>

#include "plan/successors.h"

namespace lanecast {
namespace {

/// Of the steps that may be next, the first of these is.
enum class StepTurn : std::uint8_t {
  send,
  leads_on,  // work of this rank alone, for which something waits
  group,     // while messages are on their way
  ends,      // work of this rank alone, for which nothing waits
  receive,
};

StepTurn turn_of(StepKind kind, bool leads_on) {
  switch (kind) {
    case StepKind::send:
      return StepTurn::send;
    case StepKind::group:
      return StepTurn::group;
    case StepKind::recv:
    case StepKind::recv_reduce:
      return StepTurn::receive;
    default:
      return leads_on ? StepTurn::leads_on : StepTurn::ends;
  }
}

/// The ranks' queues, each taken from the front.
class Queues {
 public:
  Queues(const std::vector<Plan>& plans, const Matching& matching,
         const std::vector<std::vector<std::uint32_t>>& orders)
      : plans_(plans), matching_(matching), orders_(orders), next_(plans.size()) {
    for (const Plan& plan : plans) arrived_.emplace_back(plan.steps.size());
    for (const auto& call : matching.calls) missing_.push_back(static_cast<std::uint32_t>(call.step.size()));
  }

  void run() {
    for (const Plan& plan : plans_) awake_.push_back(plan.rank);
    while (!awake_.empty()) {
      const int rank = awake_.front();
      awake_.pop_front();
      while (next_[rank] < orders_[rank].size() && take(rank, orders_[rank][next_[rank]])) ++next_[rank];
    }
    for (std::size_t r = 0; r < plans_.size(); ++r)
      if (next_[r] < orders_[r].size())
        throw PlanError("as one queue of a device: rank " + std::to_string(r) + " never gets past " +
                        describe(plans_[r], orders_[r][next_[r]]));
  }

 private:
  /// False where it waits.
  bool take(int rank, std::uint32_t i) {
    const Step& step = plans_[rank].steps[i];
    const std::uint32_t partner = matching_.partner[rank][i];
    switch (step.kind) {
      case StepKind::send:
        arrived_[step.peer][partner] = true;
        awake_.push_back(step.peer);
        return true;
      case StepKind::recv:
      case StepKind::recv_reduce:
        return arrived_[rank][i];
      case StepKind::group:
        if (!arrived_[rank][i] && --missing_[partner] == 0)
          for (const int member : plans_[rank].groups[step.group].ranks) awake_.push_back(member);
        arrived_[rank][i] = true;
        return missing_[partner] == 0;
      default:
        return true;
    }
  }

  const std::vector<Plan>& plans_;
  const Matching& matching_;
  const std::vector<std::vector<std::uint32_t>>& orders_;
  std::vector<std::size_t> next_;           // of each rank's order
  std::vector<std::vector<bool>> arrived_;  // messages at their receives, members at their groups
  std::vector<std::uint32_t> missing_;      // members, of each group call
  std::deque<int> awake_;
};

}  // namespace

std::vector<std::uint32_t> device_order(const Plan& plan) {
  const Successors successors(plan);
  std::vector<std::uint32_t> waits = successors.waits(), groups, order;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].kind == StepKind::group) {
      if (!groups.empty()) ++waits[i];  // for the group before it
      groups.push_back(i);
    }

  using Place = std::pair<StepTurn, std::uint32_t>;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  const auto let_go = [&](std::uint32_t i) {
    if (waits[i] == 0) ready.emplace(turn_of(plan.steps[i].kind, !successors.of(i).empty()), i);
  };
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) let_go(i);
  std::size_t groups_taken = 0;
  while (!ready.empty()) {
    const std::uint32_t step = ready.top().second;
    ready.pop();
    order.push_back(step);
    const auto finished_before = [&](std::uint32_t next) {
      --waits[next];
      let_go(next);
    };
    for (const std::uint32_t next : successors.of(step)) finished_before(next);
    if (plan.steps[step].kind == StepKind::group && ++groups_taken < groups.size())
      finished_before(groups[groups_taken]);
  }
  return order;
}

void check_device_queue(const std::vector<Plan>& plans, const Matching& matching,
                        const std::vector<std::vector<std::uint32_t>>& orders) {
  Queues(plans, matching, orders).run();
}

}  // namespace lanecast
