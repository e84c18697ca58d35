// SPDX-License-Identifier: Apache-2.0
#include "runtime/choosing.h"

#include <algorithm>

#include "device/gpu/kernels/arguments.h"
#include "runtime/router.h"

namespace lanecast {

Explanation Choosing::explain(const Call& call) const {
  const Request request = request_of(call);
  return {call.kind, request.bytes, chosen(call, request), candidates(request, topology_, models_),
          known_of_links(models_)};
}

Request Choosing::request_of(const Call& call) const {
  return {call.kind, full_bytes(call, topology_.size()), call.own_counts(), in_rank_order(call),
          router_.native(call.kind, call.dtype, call.op) != nullptr};
}

std::string_view Choosing::pinned_for(const Call& call) const {
  if (!call.algorithm.empty() || options_.algorithm.empty()) return call.algorithm;
  // The communicator's algorithm is for the collectives that have it; a name that none has is refused by planning.
  const std::string_view usual = options_.algorithm;
  const bool meant = has_algorithm(call.kind, topology_, usual) || !any_has_algorithm(topology_, usual);
  return meant ? usual : std::string_view();
}

bool Choosing::averages_in_rank_order(const Call& call) const {
  const bool narrow = is_float(call.dtype) && size_of(call.dtype) == 1;
  return narrow && call.op == ReduceOp::avg && Collective{call.kind}.reduces() && topology_.size() > 2 &&
         pinned_for(call) != "native";  // which a library has, or has not
}

bool Choosing::in_rank_order(const Call& call) const {
  const bool sums = Collective{call.kind}.reduces();
  if (averages_in_rank_order(call)) return true;
  if (!sums || !call.reproducible.value_or(options_.reproducible.value_or(false))) return false;
  // Our own kernels give integers the same bits in every order; of floats, min and max take -0 and 0 for equal.
  return is_float(call.dtype) || has_native(pinned_for(call));
}

Choice Choosing::chosen_for_gpus(const Call& call, OnGpus gpus) const {
  Request request = request_of(call);
  request.on_gpus = true;
  request.staged = !gpus.sends_directly;
  if (!pinned_in_order(call).empty()) return chosen(call, request);
  request.native = false;  // MPI's own; NCCL's is taken by name alone
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  // Within hosts by peer memory, whichever way was chosen with messages: across, their order is the same.
  const auto by_peers = [&](const Choice& choice) -> std::optional<Choice> {
    const std::size_t within = choice.algorithm.rfind(',');
    if (!gpus.has_groups || within == std::string::npos) return {};
    const std::string name = choice.algorithm.substr(0, within) + ",native)";
    if (!has_algorithm(call.kind, topology_, name)) return {};
    Choice found = predict(request, topology_, models_, name, chunks);
    found.decided_by = choice.decided_by;
    return found;
  };
  const auto fits = [&](const Choice& choice) {
    return choice.algorithm != "one_shot" ||
           topology_.size() <= gpu::kMostRanks;  // which adds up all ranks' in one step
  };
  const auto as_it_is = [&](Choice choice) {
    if (chunks) choice.chunks = chunks;
    return choice;
  };
  const Choice first = choose(request, topology_, models_);
  if (auto found = by_peers(first)) return *found;
  if (first.decided_by != Decider::cost_model && fits(first)) return as_it_is(first);
  const std::vector<Choice> cheapest_first = candidates(request, topology_, models_);
  for (const Choice& choice : cheapest_first)
    if (auto found = by_peers(choice)) return *found;
  return as_it_is(*std::ranges::find_if(cheapest_first, fits));
}

Choice Choosing::chosen(const Call& call) const { return chosen(call, request_of(call)); }

std::string Choosing::pinned_in_order(const Call& call) const {
  const bool reproducible = in_rank_order(call);
  // What is pinned for every call gathers finished parts, which of reproducible sums only an all-reduce has.
  std::string pinned(reproducible && call.kind != Kind::all_reduce ? call.algorithm : pinned_for(call));
  // Nobody has asked for the order of these averages, so nobody is refused for it.
  const auto among = [&](bool in_order) {
    return std::ranges::count(algorithms_for(call.kind, topology_, in_order), pinned) > 0;
  };
  if (averages_in_rank_order(call) && among(false) && !among(true)) pinned.clear();
  return pinned;
}

Choice Choosing::chosen(const Call& call, const Request& request) const {
  const bool reproducible = in_rank_order(call);
  const std::string pinned = pinned_in_order(call);
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (pinned.empty()) {
    Choice choice = choose(request, topology_, models_);
    if (chunks) choice.chunks = chunks;
    return choice;
  }
  if (std::ranges::count(algorithms_for(call.kind, topology_, reproducible), pinned) == 0)
    return {pinned};  // planning refuses it
  Choice choice = predict(request, topology_, models_, pinned, chunks);
  choice.decided_by = Decider::pinned;
  return choice;
}

}  // namespace lanecast
