// SPDX-License-Identifier: Apache-2.0
// Which algorithm a call takes: what the user has pinned, in the call, for all calls or in a file, else what was
// learned, else the cost model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/request/call.h"
#include "runtime/request/options.h"
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

  /// By level: do any ranks of different hosts part there?
  const std::vector<bool>& between_hosts() const { return between_hosts_; }
  void know_between_hosts(std::vector<bool> levels) { between_hosts_ = std::move(levels); }
  /// Are there links between hosts, and does the user leave it to us what they are?
  bool may_time_links() const;
  /// Of messages that lie on GPUs, where those were timed; else they are taken to be as the others.
  struct GpuLinks {
    std::vector<Link> links;
    std::vector<Overlap> overlaps;
    std::string timing;
  };
  const GpuLinks& gpu_links() const { return gpu_links_; }
  void choose_on_gpus_by(GpuLinks links) { gpu_links_ = std::move(links); }
  /// What calls on GPUs are chosen by, equal on all ranks: see Models::gpu.
  /// Throws UsageError where the user has named what was learned between hosts with others.
  void gpus_are(const std::string& kind);

  Choice chosen(const Call& call) const;
  Explanation explain(const Call& call) const;
  struct OnGpus {
    bool sends_directly = false;  // messages to other hosts lie on the GPU
    bool has_groups = false;      // group steps within hosts go by peer memory
  };
  Choice chosen_for_gpus(const Call& call, OnGpus gpus) const;
  Explanation explain_for_gpus(const Call& call, OnGpus gpus) const;
  /// The slowest link that messages between hosts take.
  Link network(OnGpus gpus) const;

  /// The algorithm that the user has named for this call on GPUs, or for all; empty: none.
  std::string_view pinned_on_gpus(const Call& call) const { return pinned_where(call, /*on_gpus=*/true); }
  /// Is this call's sum to be reduced in rank order?
  bool in_rank_order(const Call& call) const;

 private:
  Request request_of(const Call& call) const;
  /// The algorithm that the user has named for this call or for all; empty: none.
  std::string_view pinned_for(const Call& call) const;
  /// The same: what is set for all calls is for those whose memory it takes.
  std::string_view pinned_where(const Call& call, bool on_gpus) const;
  /// 8-bit floats have no place for an average's sum beyond their range, so none is on the way.
  bool averages_in_rank_order(const Call& call) const;
  /// pinned_where(), without what that order rules out.
  std::string pinned_in_order(const Call& call, bool on_gpus) const;
  Choice chosen(const Call& call, const Request& request, const Models& models) const;
  Request request_of(const Call& call, OnGpus gpus) const;
  Models models_for(OnGpus gpus) const;
  /// By the cost model, the fastest first.
  std::vector<Choice> candidates_for_gpus(const Request& request, const Models& models, bool has_groups) const;

  const Topology& topology_;
  const CommunicatorOptions& options_;
  Router& router_;
  Models models_;
  std::vector<bool> between_hosts_;
  GpuLinks gpu_links_;
  /// By times of whole calls between hosts with such GPUs; none where nobody has taken them.
  std::optional<Choice> learned_on_gpus(const Request& request, const Models& models, OnGpus gpus) const;

  const GpuKind* gpu_ = Models{}.gpu;
  std::string kind_of_gpu_;
};

}  // namespace lanecast
