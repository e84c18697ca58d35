// SPDX-License-Identifier: Apache-2.0
#include "select/choose.h"

#include <algorithm>

#include "select/cost.h"

namespace lanecast {

std::string_view name_of(Decider decider) {
  switch (decider) {
    case Decider::pinned:
      return "pinned";
    case Decider::learned:
      return "learned";
    default:
      return "cost model";
  }
}

std::vector<std::string> valid_algorithms(const Request& request, const Topology& topology) {
  std::vector<std::string> names = algorithms_for(request.kind, topology, request.reproducible);
  std::erase_if(names, [&](const std::string& name) {
    if (has_library(name)) return name != kMpi || !request.by_mpi;
    return request.own_counts && forwards(request.kind, name);
  });
  return names;
}

std::vector<Choice> candidates(const Request& request, const Topology& topology, const Models& models) {
  std::vector<Choice> found;
  // Hierarchies of hosts with one rank each do what flat algorithms do, in more chunks.
  const bool one_rank_each = largest_groups(topology)[0] == topology.size();
  for (const std::string& algorithm : valid_algorithms(request, topology)) {
    if (has_library(algorithm) || (is_hierarchical(algorithm) && one_rank_each)) continue;
    Choice choice = predict(request, topology, models, algorithm);
    // Behind those that take as long: they stay in the registry's order.
    found.insert(std::ranges::upper_bound(found, choice.seconds, {}, &Choice::seconds), std::move(choice));
  }
  return found;
}

Choice choose(const Request& request, const Topology& topology, const Models& models) {
  if (const Pin* pin = models.pin(request.kind, request.bytes)) {
    const std::vector<std::string> valid = valid_algorithms(request, topology);
    if (std::ranges::count(valid, pin->algorithm) > 0) {
      Choice choice = predict(request, topology, models, pin->algorithm, pin->chunks);
      choice.decided_by = Decider::pinned;
      return choice;
    }
  }
  if (const auto learned = ask(models, request, topology)) {
    Choice choice = predict(request, topology, models, learned->algorithm);
    choice.decided_by = Decider::learned;
    choice.timed = !choice.measured && learned->seconds > 0;
    if (choice.timed) choice.seconds = learned->seconds;
    return choice;
  }
  return candidates(request, topology, models).front();
}

}  // namespace lanecast
