// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/part_of_job.h"

#include <algorithm>
#include <string>

#include "algorithms/algorithms.h"
#include "runtime/wires/level_names.h"

namespace lanecast {
namespace {

constexpr const char* kTopology = "LANECAST_TOPOLOGY";
constexpr const char* kTransports = "LANECAST_TRANSPORTS";
constexpr const char* kAlgorithm = "LANECAST_ALGORITHM";

/// The last names of a list, for as many levels as there are here: of the hosts, where no topology is given, the part
/// on one host has lost the outer level, and its ranks are the innermost one.
std::string innermost(const std::string& list, std::size_t names) {
  std::size_t begin = list.size();
  for (; names > 0; --names) {
    const std::size_t comma = begin == 0 ? std::string::npos : list.rfind(',', begin - 1);
    if (comma == std::string::npos) return list;
    begin = comma;
  }
  return list.substr(begin + 1);
}

/// Is what there is of an option meant for the job?
bool describes_job(const CommunicatorOptions& options, std::string_view variable, const std::string& given) {
  const bool of_program = options.part && options.part->has_options;
  return !given.empty() && (of_program || options.set_by.contains(variable));
}

void require_existing(const PartOfJob& part, int size) {
  if (part.ranks.size() != static_cast<std::size_t>(size))
    throw UsageError("job_ranks: " + std::to_string(part.ranks.size()) + " places for " + std::to_string(size) +
                     " ranks");
  for (const int rank : part.ranks)
    if (rank < 0 || rank >= part.size || std::ranges::count(part.ranks, rank) > 1)
      throw UsageError("job_ranks: " + std::to_string(rank) + " does not exist in a job of " +
                       std::to_string(part.size) + " ranks, or stands there twice");
}

}  // namespace

void fit_to_part(CommunicatorOptions& options, const PartOfJob& part, const std::vector<std::string>& hosts) {
  require_existing(part, static_cast<int>(hosts.size()));
  const bool of_job = describes_job(options, kTransports, options.transports);
  if (describes_job(options, kTopology, options.topology)) {
    const Topology job = naming(kTopology, options, [&] { return Topology::parse(options.topology, part.size); });
    options.placed = job.subset(part.ranks);
    if (of_job)
      options.transports = naming(kTransports, options,
                                  [&] { return LevelNames(options.transports, job, "topology").subset(part.ranks); });
  } else if (options.topology.empty()) {
    const Topology& here = options.placed.emplace(Topology::from_hosts(hosts));
    if (of_job) options.transports = innermost(options.transports, static_cast<std::size_t>(here.levels()) + 1);
  }
}

void leave_aside_what_does_not_fit(CommunicatorOptions& options, const Topology& here) {
  if (!describes_job(options, kAlgorithm, options.algorithm) || any_has_algorithm(here, options.algorithm)) return;
  options.left_aside.push_back((options.set_by.contains(kAlgorithm) ? std::string(kAlgorithm) + "='" : "algorithm '") +
                               options.algorithm + "' for groups of " + std::to_string(here.size()) +
                               " ranks on topology " + here.str() + ", where no call has it: what they take is chosen");
  options.algorithm.clear();
}

}  // namespace lanecast
