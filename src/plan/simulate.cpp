// SPDX-License-Identifier: Apache-2.0
// The strictest executor there can be: steps start in list order, each only when what it depends on has finished, at
// most `window` are unfinished, and a message moves only when both sides have started it.
#include <algorithm>
#include <deque>

#include "plan/verify.h"

namespace lanecast {
namespace {

class Simulation {
 public:
  Simulation(const std::vector<Plan>& plans, const Matching& matching, std::uint32_t window, const Happens& happens)
      : plans_(plans), matching_(matching), window_(window), happens_(happens) {
    for (const Plan& plan : plans) state_.emplace_back(plan.steps.size(), State::waiting);
    next_.resize(plans.size());
    unfinished_.resize(plans.size());
    for (const auto& call : matching.calls) missing_.push_back(static_cast<std::uint32_t>(call.step.size()));
  }

  std::string run() {
    for (std::size_t r = 0; r < plans_.size(); ++r) awake_.push_back(static_cast<int>(r));
    while (!awake_.empty()) {
      const int rank = awake_.front();
      awake_.pop_front();
      while (may_start(rank)) start(rank, next_[rank]++);
    }
    std::string stuck;
    int shown = 0;
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      const auto unfinished =
          std::find_if(state_[r].begin(), state_[r].end(), [](State s) { return s != State::finished; });
      if (unfinished == state_[r].end() || ++shown > 3) continue;
      stuck += (stuck.empty() ? "deadlock: rank " : "; rank ") + std::to_string(r) + " " +
               describe(plans_[r], unfinished - state_[r].begin());
    }
    return stuck;
  }

 private:
  enum class State : std::uint8_t { waiting, started, finished };

  bool may_start(int rank) const {
    const Plan& plan = plans_[rank];
    if (next_[rank] == plan.steps.size() || unfinished_[rank] >= window_) return false;
    for (std::uint32_t d : plan.deps(plan.steps[next_[rank]]))
      if (state_[rank][d] != State::finished) return false;
    return true;
  }

  void start(int rank, std::uint32_t i) {
    state_[rank][i] = State::started;
    ++unfinished_[rank];
    const Step& step = plans_[rank].steps[i];
    const std::uint32_t partner = matching_.partner[rank][i];
    switch (step.kind) {
      case StepKind::copy:
      case StepKind::reduce:
        happens_(rank, i);
        return finish(rank, i);
      case StepKind::group: {
        if (--missing_[partner] > 0) return;
        const auto& members = plans_[rank].groups[step.group].ranks;
        const auto& steps = matching_.calls[partner].step;
        happens_(members[0], steps[0]);
        for (std::size_t k = 0; k < members.size(); ++k) finish(members[k], steps[k]);
        return;
      }
      default:
        if (state_[step.peer][partner] != State::started) return;
        if (step.kind == StepKind::send)
          happens_(step.peer, partner);
        else
          happens_(rank, i);
        finish(rank, i);
        finish(step.peer, partner);
    }
  }

  void finish(int rank, std::uint32_t i) {
    state_[rank][i] = State::finished;
    --unfinished_[rank];
    awake_.push_back(rank);
  }

  const std::vector<Plan>& plans_;
  const Matching& matching_;
  std::uint32_t window_;
  const Happens& happens_;
  std::vector<std::vector<State>> state_;
  std::vector<std::uint32_t> next_, unfinished_, missing_;
  std::deque<int> awake_;
};

}  // namespace

std::string simulate(const std::vector<Plan>& plans, const Matching& matching, std::uint32_t window,
                     const Happens& happens) {
  return Simulation(plans, matching, window, happens).run();
}

}  // namespace lanecast
