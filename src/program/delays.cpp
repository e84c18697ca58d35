// SPDX-License-Identifier: Apache-2.0
#include "program/delays.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace lanecast {
namespace {

/// Those of carried messages that no step of their stage needs. They work a chunk later: the message of one chunk is
/// on its way while the next one's is put. Messages of one stage may be put later than taken on no rank, so no put
/// waits.
std::vector<bool> takes_that_may_wait(const Plan& plan, const std::vector<bool>& carried) {
  std::vector<bool> may_wait(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    may_wait[i] = carried[i] && step.kind != StepKind::send && step.stage >= 0;
    for (const std::uint32_t before : plan.deps(step))
      if (plan.steps[before].stage == step.stage) may_wait[before] = false;
  }
  return may_wait;
}

}  // namespace

std::vector<std::int32_t> stages_of(const std::vector<Plan>& plans) {
  std::set<std::int32_t> all;
  bool several = false;  // in one queue
  for (const Plan& plan : plans) {
    std::set<std::int32_t> of_queue[2];
    for (const Step& step : plan.steps)
      if (talks(step) && step.stage >= 0) of_queue[step.kind == StepKind::send ? 0 : 1].insert(step.stage);
    for (const auto& of_one : of_queue) {
      several |= of_one.size() > 1;
      all.insert(of_one.begin(), of_one.end());
    }
  }
  return several ? std::vector<std::int32_t>(all.begin(), all.end()) : std::vector<std::int32_t>{};
}

std::vector<std::uint32_t> delays_of(const Plan& plan, const std::vector<bool>& carried,
                                     const std::vector<std::int32_t>& stages) {
  const auto chunks_behind = [&stages](std::int32_t stage) {
    if (stages.empty()) return static_cast<std::uint32_t>(stage);
    return static_cast<std::uint32_t>(std::ranges::lower_bound(stages, stage) - stages.begin());
  };
  const std::vector<bool> may_wait = takes_that_may_wait(plan, carried);
  std::vector<std::uint32_t> delays(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    // A step of no stage, which copies to the output, goes with what it needs. So does one that divides sums, where
    // stages are those of messages: what sends its result is to find it in the tick before.
    for (const std::uint32_t before : plan.deps(step)) delays[i] = std::max(delays[i], delays[before]);
    if (step.stage < 0 || (!stages.empty() && !talks(step))) continue;
    const std::uint32_t behind = chunks_behind(step.stage);
    if (behind < delays[i]) throw InternalError("program: " + describe(plan, i) + " needs what comes in a later stage");
    delays[i] = behind + (may_wait[i] ? 1 : 0);
  }
  return delays;
}

}  // namespace lanecast
