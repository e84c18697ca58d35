// SPDX-License-Identifier: Apache-2.0
// Plans are built once, and bound once per shape: the second of two equal calls plans nothing and allocates nothing.
#pragma once

#include <memory>
#include <string>

#include "runtime/bound/recent_calls.h"
#include "runtime/host/execution.h"
#include "runtime/request/call.h"
#include "select/choose.h"

namespace lanecast {

class PlanCache {
 public:
  PlanCache(const Topology& topology, int rank, Router& router, const ExecutorOptions& options)
      : topology_(topology), rank_(rank), router_(router), options_(options) {}

  /// The execution of an equal call before, or null.
  std::shared_ptr<Execution> find(const Call& call, bool in_place);
  std::shared_ptr<Execution> make(const Call& call, bool in_place, const Choice& choice);

  /// A plan that is not kept here, bound to the memory that all calls share.
  std::shared_ptr<Execution> bind(std::shared_ptr<PreparedPlan> prepared, Shape shape, const ExecutorOptions& options);

  /// For a call that has failed: it stays as long as the cache, though it may have left it for newer ones.
  void keep(std::shared_ptr<OrderedCall> call) { kept_.push_back(std::move(call)); }

 private:
  static constexpr std::size_t kPlans = 64;
  static constexpr std::size_t kExecutions = 32;

  std::shared_ptr<PreparedPlan> plan(const Call& call, bool in_place, const std::string& algorithm);
  void require_library(const Plan& plan, const Call& call) const;

  struct PlanKey {
    Collective collective;
    std::string algorithm;
  };

  const Topology& topology_;
  int rank_;
  Router& router_;
  ExecutorOptions options_;
  CallMemory memory_;  // outlives the executions
  RecentlyUsed<PlanKey, std::shared_ptr<PreparedPlan>> plans_{kPlans};
  RecentCalls<std::shared_ptr<Execution>> executions_{kExecutions};
  std::vector<std::shared_ptr<OrderedCall>> kept_;
};

}  // namespace lanecast
