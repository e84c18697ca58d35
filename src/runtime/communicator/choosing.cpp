// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/choosing.h"

#include <algorithm>

#include "device/gpu/kernels/arguments.h"
#include "runtime/wires/link_policy.h"
#include "runtime/wires/router.h"

namespace lanecast {
namespace {

/// The hierarchy with what is innermost by groups, where it is one and has that; else empty.
std::string within_by_groups(Kind kind, const Topology& topology, const std::string& algorithm) {
  const std::size_t within = algorithm.rfind(',');
  if (within == std::string::npos) return {};
  std::string name = algorithm.substr(0, within) + "," + std::string(kPeers) + ")";
  return has_algorithm(kind, topology, name) ? name : std::string();
}

/// Does it take GPUs' memory alone?
bool is_among_gpus(std::string_view algorithm) {
  return has_level(algorithm, kNccl) || has_level(algorithm, kPeers) || peer_engine_from(algorithm);
}

/// One adds up all ranks' in one step.
bool fits_a_kernel(const std::string& algorithm, const Topology& topology) {
  return algorithm != "one_shot" || topology.size() <= gpu::kMostRanks;
}

}  // namespace

bool Choosing::may_time_links() const {
  return std::ranges::count(between_hosts_, true) > 0 &&
         link_policy_from(options_.links).way == LinkPolicy::Way::measure;
}

Explanation Choosing::explain(const Call& call) const {
  const Request request = request_of(call);
  return {call.kind,
          request.bytes,
          chosen(call, request, models_),
          candidates(request, topology_, models_),
          known_of_links(models_),
          {}};
}

Request Choosing::request_of(const Call& call) const {
  const std::size_t bytes = full_bytes(call, topology_.size()) / static_cast<std::size_t>(call.slice.count);
  return {call.kind, bytes, call.own_counts(), in_rank_order(call),
          router_.library_for(call.kind, call.dtype, call.op) != nullptr};
}

std::string_view Choosing::pinned_for(const Call& call) const {
  if (!call.algorithm.empty() || options_.algorithm.empty()) return call.algorithm;
  // The communicator's algorithm is for the collectives that have it; a name that none has is refused by planning.
  const std::string_view usual = options_.algorithm;
  const bool meant = has_algorithm(call.kind, topology_, usual) || !any_has_algorithm(topology_, usual);
  return meant ? usual : std::string_view();
}

std::string_view Choosing::pinned_where(const Call& call, bool on_gpus) const {
  const std::string_view name = pinned_for(call);
  const bool takes_other_memory = on_gpus ? has_level(name, kMpi) : is_among_gpus(name);
  return call.algorithm.empty() && takes_other_memory ? std::string_view() : name;
}

bool Choosing::averages_in_rank_order(const Call& call) const {
  const bool narrow = is_float(call.dtype) && size_of(call.dtype) == 1;
  return narrow && call.op == ReduceOp::avg && Collective{call.kind}.reduces() && topology_.size() > 2 &&
         call.algorithm != kMpi && pinned_for(call) != kNccl;  // which a library has, or has not
}

bool Choosing::in_rank_order(const Call& call) const {
  const bool sums = Collective{call.kind}.reduces();
  if (averages_in_rank_order(call)) return true;
  if (!sums || !call.reproducible.value_or(options_.reproducible.value_or(false))) return false;
  // Our own kernels give integers the same bits in every order; of floats, min and max take -0 and 0 for equal.
  return is_float(call.dtype) || has_library(pinned_for(call));
}

Models Choosing::models_for(OnGpus gpus) const {
  Models models = models_;
  models.gpu = gpu_;
  if (!gpus.sends_directly || gpu_links_.links.empty()) return models;
  models.links = gpu_links_.links;
  models.overlaps = gpu_links_.overlaps;
  models.timing = gpu_links_.timing;
  return models;
}

Request Choosing::request_of(const Call& call, OnGpus gpus) const {
  Request request = request_of(call);
  request.on_gpus = true;
  request.staged = !gpus.sends_directly;
  request.by_mpi = false;  // it takes no GPU's memory here
  return request;
}

std::vector<Choice> Choosing::candidates_for_gpus(const Request& request, const Models& models, bool has_groups) const {
  std::vector<Choice> found, by_groups, flat;
  for (Choice& choice : candidates(request, topology_, models)) {
    if (!fits_a_kernel(choice.algorithm, topology_)) continue;
    // Within hosts by peer memory, whichever way was chosen with messages: across, their order is the same.
    const std::string name = has_groups ? within_by_groups(request.kind, topology_, choice.algorithm) : "";
    if (!name.empty() && std::ranges::count(by_groups, name, &Choice::algorithm) == 0) {
      Choice with_groups = predict(request, topology_, models, name);
      by_groups.insert(std::ranges::upper_bound(by_groups, with_groups.seconds, {}, &Choice::seconds),
                       std::move(with_groups));
    }
    // Some go over the network once where a hierarchy does twice: to sum, and to hand out. And parts that no two ranks
    // share gain nothing by others' NICs.
    const bool may_be_flat = request.kind == Kind::all_reduce || request.kind == Kind::all_to_all;
    if (may_be_flat && !is_hierarchical(choice.algorithm)) flat.push_back(choice);
    found.push_back(std::move(choice));
  }
  if (by_groups.empty()) return found;
  std::vector<Choice> all;
  std::ranges::merge(by_groups, flat, std::back_inserter(all), {}, &Choice::seconds, &Choice::seconds);
  return all;
}

void Choosing::gpus_are(const std::string& kind) {
  gpu_ = &gpu_kind(kind);
  kind_of_gpu_ = kind;
  const auto ours = [&](const GpuModel& each) { return !each.one_host && each.gpu == kind; };
  if (std::ranges::any_of(models_.gpu_models, ours)) return;
  for (const GpuModel& each : models_.gpu_models)
    if (!each.one_host && !each.file.empty())
      throw UsageError("model " + each.file + ": was learned from other jobs (gpu: " + each.gpu + ", not " +
                       (kind.empty() ? "several kinds" : kind) +
                       "); measure here with `lanecast learn measure --device cuda`, or set LANECAST_PROFILE=none");
}

std::optional<Choice> Choosing::learned_on_gpus(const Request& request, const Models& models, OnGpus gpus) const {
  for (const GpuModel& model : models.gpu_models) {
    if (model.one_host || model.gpu != kind_of_gpu_) continue;
    for (const GpuModel::Way& way : model.ways) {
      if (way.machine.kind != request.kind) continue;
      std::vector<std::string> valid;
      for (const Choice& each : candidates_for_gpus(request, models, gpus.has_groups)) valid.push_back(each.algorithm);
      const auto answer = ask(way.machine, request, topology_, valid);
      if (!answer) continue;
      Choice choice = predict(request, topology_, models, answer->algorithm);
      choice.decided_by = Decider::learned;
      choice.timed = answer->seconds > 0;
      if (choice.timed) choice.seconds = answer->seconds;
      return choice;
    }
  }
  return {};
}

Choice Choosing::chosen_for_gpus(const Call& call, OnGpus gpus) const {
  const Request request = request_of(call, gpus);
  const Models models = models_for(gpus);
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (!pinned_in_order(call, /*on_gpus=*/true).empty()) return chosen(call, request, models);
  if (auto learned = learned_on_gpus(request, models, gpus)) {
    if (chunks) learned->chunks = chunks;
    return *learned;
  }
  const Choice first = choose(request, topology_, models);
  const std::string name = gpus.has_groups ? within_by_groups(call.kind, topology_, first.algorithm) : "";
  Choice choice = first;
  if (first.decided_by == Decider::cost_model || (name.empty() && !fits_a_kernel(first.algorithm, topology_)))
    choice = candidates_for_gpus(request, models, gpus.has_groups).front();
  else if (!name.empty())
    choice = predict(request, topology_, models, name, chunks);
  choice.decided_by = first.decided_by;
  if (chunks) choice.chunks = chunks;
  return choice;
}

Link Choosing::network(OnGpus gpus) const {
  const Models models = models_for(gpus);
  Link slowest = models.links[0];
  for (std::size_t k = 0; k < models.links.size() && k < between_hosts_.size(); ++k)
    if (between_hosts_[k] && models.links[k].beta_s_per_byte > slowest.beta_s_per_byte) slowest = models.links[k];
  return slowest;
}

Explanation Choosing::explain_for_gpus(const Call& call, OnGpus gpus) const {
  const Request request = request_of(call, gpus);
  const Models models = models_for(gpus);
  return {call.kind,
          request.bytes,
          chosen_for_gpus(call, gpus),
          candidates_for_gpus(request, models, gpus.has_groups),
          known_of_links(models),
          {}};
}

Choice Choosing::chosen(const Call& call) const { return chosen(call, request_of(call), models_); }

std::string Choosing::pinned_in_order(const Call& call, bool on_gpus) const {
  const bool reproducible = in_rank_order(call);
  // What is pinned for every call gathers finished parts, which of reproducible sums only an all-reduce has.
  std::string pinned(reproducible && call.kind != Kind::all_reduce ? call.algorithm : pinned_where(call, on_gpus));
  // Nobody has asked for the order of these averages, so nobody is refused for it.
  const auto among = [&](bool in_order) {
    return std::ranges::count(algorithms_for(call.kind, topology_, in_order), pinned) > 0;
  };
  if (averages_in_rank_order(call) && among(false) && !among(true)) pinned.clear();
  return pinned;
}

Choice Choosing::chosen(const Call& call, const Request& request, const Models& models) const {
  const bool reproducible = in_rank_order(call);
  const std::string pinned = pinned_in_order(call, request.on_gpus);
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (pinned.empty()) {
    Choice choice = choose(request, topology_, models);
    if (chunks) choice.chunks = chunks;
    return choice;
  }
  if (std::ranges::count(algorithms_for(call.kind, topology_, reproducible), pinned) == 0)
    return {pinned};  // planning refuses it
  Choice choice = predict(request, topology_, models, pinned, chunks);
  choice.decided_by = Decider::pinned;
  return choice;
}

}  // namespace lanecast
