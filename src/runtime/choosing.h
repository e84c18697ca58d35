// SPDX-License-Identifier: Apache-2.0
// Which algorithm a call takes: what the user has pinned, in the call, for all calls or in a file, else what was
// learned, else the cost model.
#pragma once

#include <string_view>
#include <utility>

#include "runtime/call.h"
#include "runtime/options.h"
#include "select/choose.h"
#include "select/explain.h"
#include "select/models.h"
#include "topology/topology.h"

namespace lanecast {

class Router;

class Choosing {
 public:
  /// All of them outlive it.
  Choosing(const Topology& topology, const CommunicatorOptions& options, Router& router)
      : topology_(topology), options_(options), router_(router) {}

  const Models& models() const { return models_; }
  /// Equal on every rank.
  void choose_by(Models models) { models_ = std::move(models); }

  Choice chosen(const Call& call) const;
  Explanation explain(const Call& call) const;
  struct OnGpus {
    bool sends_directly = false;  // messages to other hosts lie on the GPU
    bool has_groups = false;      // group steps within hosts go by peer memory
  };
  Choice chosen_for_gpus(const Call& call, OnGpus gpus) const;

  /// The algorithm that the user has named for this call or for all; empty: none.
  std::string_view pinned_for(const Call& call) const;
  /// Is this call's sum to be reduced in rank order?
  bool in_rank_order(const Call& call) const;

 private:
  Request request_of(const Call& call) const;
  /// 8-bit floats have no place for an average's sum beyond their range, so none is on the way.
  bool averages_in_rank_order(const Call& call) const;
  /// pinned_for(), without what that order rules out.
  std::string pinned_in_order(const Call& call) const;
  Choice chosen(const Call& call, const Request& request) const;

  const Topology& topology_;
  const CommunicatorOptions& options_;
  Router& router_;
  Models models_;
};

}  // namespace lanecast
