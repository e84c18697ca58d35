// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_cache.h"

#include <algorithm>

namespace lanecast {

std::shared_ptr<Execution> PlanCache::find(const Call& call, bool in_place) {
  for (auto e = executions_.begin(); e != executions_.end(); ++e) {
    const bool same = e->kind == call.kind && e->in_place == in_place && e->dtype == call.dtype && e->op == call.op &&
                      e->chunks == call.chunks && e->count == call.count && e->algorithm == call.algorithm &&
                      std::equal(e->counts.begin(), e->counts.end(), call.counts.begin(), call.counts.end());
    if (!same) continue;
    executions_.splice(executions_.begin(), executions_, e);
    return e->execution;
  }
  return nullptr;
}

void PlanCache::require_native(const Plan& plan, const Call& call) const {
  for (const Group& group : plan.groups)
    if (!router_.native(group.kind, call.dtype, call.op))
      throw UsageError("algorithm '" + plan.algorithm + "': no transport here runs " + std::string(name_of(call.op)) +
                       " of " + std::string(name_of(call.dtype)) + " by itself");
}

std::shared_ptr<const PreparedPlan> PlanCache::plan(const Call& call, bool in_place, const std::string& algorithm,
                                                    const std::function<void()>& before_groups) {
  for (auto p = plans_.begin(); p != plans_.end(); ++p)
    if (p->kind == call.kind && p->in_place == in_place && p->algorithm == algorithm) {
      plans_.splice(plans_.begin(), plans_, p);
      return p->prepared;
    }
  Plan built = make_plan({call.kind, topology_.size(), in_place}, rank_, topology_, algorithm);
  require_native(built, call);
  auto prepared = std::make_shared<PreparedPlan>(std::move(built));
  if (!prepared->plan.groups.empty()) before_groups();
  for (const Step& step : prepared->plan.steps) {
    if (step.kind != StepKind::group) continue;
    const Group& group = prepared->plan.groups[step.group];
    prepared->handles.push_back(router_.native(group.kind, call.dtype, call.op)->open_group(group.ranks, step.ordinal));
  }
  plans_.push_front({call.kind, in_place, algorithm, std::move(prepared)});
  if (plans_.size() > kPlans) plans_.pop_back();
  return plans_.front().prepared;
}

std::shared_ptr<Execution> PlanCache::make(const Call& call, bool in_place, const Choice& choice,
                                           const std::function<void()>& before_groups) {
  Shape shape{call.dtype, call.op, choice.chunks, {}};
  const int parts = call.kind == Kind::all_reduce ? 1 : topology_.size();
  for (int p = 0; p < parts; ++p) shape.counts.push_back(count_of(call, p));
  auto prepared = plan(call, in_place, choice.algorithm, before_groups);
  require_native(prepared->plan, call);
  executions_.push_front({call.kind,
                          in_place,
                          call.count,
                          {call.counts.begin(), call.counts.end()},
                          call.dtype,
                          call.op,
                          std::string(call.algorithm),
                          call.chunks,
                          std::make_shared<Execution>(std::move(prepared), std::move(shape), router_, options_)});
  if (executions_.size() > kExecutions) executions_.pop_back();
  return executions_.front().execution;
}

}  // namespace lanecast
