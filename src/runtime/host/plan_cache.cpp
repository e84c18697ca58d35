// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/plan_cache.h"

#include "algorithms/registry.h"
#include "plan/own_share_first.h"
#include "runtime/bound/own_counts.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/host/own_share.h"

namespace lanecast {

std::shared_ptr<Execution> PlanCache::find(const Call& call, bool in_place) {
  const auto* const found = executions_.find(collective_of(call, topology_.size(), in_place), call, call.algorithm);
  return found ? *found : nullptr;
}

void PlanCache::require_library(const Plan& plan, const Call& call) const {
  for (const std::string_view among_gpus : {kNccl, kPeers})
    if (has_level(plan.algorithm, among_gpus))
      throw UsageError("algorithm '" + plan.algorithm + "': " + std::string(among_gpus) +
                       " runs among GPUs, and these " +
                       "buffers lie in the host's memory; name mpi or another algorithm");
  for (const Group& group : plan.groups)
    if (!router_.library_for(group.kind, call.dtype, call.op))
      throw UsageError("algorithm '" + plan.algorithm + "': no transport here runs " + std::string(name_of(call.op)) +
                       " of " + std::string(name_of(call.dtype)) + " by itself");
}

std::shared_ptr<PreparedPlan> PlanCache::plan(const Call& call, bool in_place, const std::string& algorithm) {
  require_own_counts_suffice(call, topology_, algorithm);
  const Collective collective = collective_of(call, topology_.size(), in_place);
  const auto* const found =
      plans_.find([&](const PlanKey& key) { return key.collective == collective && key.algorithm == algorithm; });
  if (found) return *found;
  Plan built = make_plan(collective, rank_, topology_, algorithm);
  require_library(built, call);
  return plans_.make({collective, algorithm}, std::make_shared<PreparedPlan>(std::move(built)));
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
  return executions_.make(collective_of(call, topology_.size(), in_place), call, call.algorithm,
                          bind(std::move(prepared), std::move(shape), options_));
}

}  // namespace lanecast
