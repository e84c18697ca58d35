// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/plan_cache.h"

#include "plan/own_share_first.h"
#include "runtime/bound/own_counts.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/host/own_share.h"

namespace lanecast {

std::shared_ptr<Execution> PlanCache::find(const Call& call, bool in_place) {
  const Collective collective = collective_of(call, topology_.size(), in_place);
  for (auto e = executions_.begin(); e != executions_.end(); ++e) {
    if (e->collective != collective || e->algorithm != call.algorithm || !describes(call, e->shape)) continue;
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

std::shared_ptr<PreparedPlan> PlanCache::plan(const Call& call, bool in_place, const std::string& algorithm) {
  require_own_counts_suffice(call, topology_, algorithm);
  const Collective collective = collective_of(call, topology_.size(), in_place);
  for (auto p = plans_.begin(); p != plans_.end(); ++p)
    if (p->collective == collective && p->algorithm == algorithm) {
      plans_.splice(plans_.begin(), plans_, p);
      return p->prepared;
    }
  Plan built = make_plan(collective, rank_, topology_, algorithm);
  require_native(built, call);
  plans_.push_front({collective, algorithm, std::make_shared<PreparedPlan>(std::move(built))});
  if (plans_.size() > kPlans) plans_.pop_back();
  return plans_.front().prepared;
}

std::shared_ptr<Execution> PlanCache::bind(std::shared_ptr<PreparedPlan> prepared, Shape shape,
                                           const ExecutorOptions& options) {
  return std::make_shared<Execution>(std::move(prepared), std::move(shape), router_, memory_, options);
}

std::shared_ptr<Execution> PlanCache::make(const Call& call, bool in_place, const Choice& choice) {
  auto prepared = plan(call, in_place, choice.algorithm);
  Shape shape = shape_of(call);
  shape.chunks = choice.chunks;
  if (sends_from_output(prepared->plan, shape, router_))
    if (auto other = own_share_first(prepared->plan)) prepared = std::make_shared<PreparedPlan>(*std::move(other));
  executions_.push_front({collective_of(call, topology_.size(), in_place), shape_of(call), std::string(call.algorithm),
                          bind(std::move(prepared), std::move(shape), options_)});
  if (executions_.size() > kExecutions) executions_.pop_back();
  return executions_.front().execution;
}

}  // namespace lanecast
