// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/ground.h"

#include <cstdio>
#include <random>
#include <set>

#include "base/agreed.h"
#include "runtime/request/equal_options.h"
#include "runtime/request/part_of_job.h"
#include "runtime/watch/trace_file.h"

namespace lanecast {
namespace {

Topology topology_for(const CommunicatorOptions& options, const Surroundings& around) {
  if (options.placed) {
    if (options.placed->size() != around.bootstrap.size)
      throw UsageError("topology " + options.placed->str() + " describes " + std::to_string(options.placed->size()) +
                       " ranks, but there are " + std::to_string(around.bootstrap.size));
    return *options.placed;
  }
  if (!options.topology.empty())
    return naming("LANECAST_TOPOLOGY", options,
                  [&] { return Topology::parse(options.topology, around.bootstrap.size); });
  return Topology::from_hosts(around.hosts);
}

/// Everything that the user asks for and that does not depend on what the transports find; the topology is placed.
CommunicatorOptions settled(CommunicatorOptions options, const Surroundings& around) {
  if (options.from_environment) apply_environment(options);
  check(options);
  if (!options.timeout_s) options.timeout_s = kTimeout_s;
  if (options.part) fit_to_part(options, *options.part, around.hosts);
  const Topology& here = options.placed.emplace(topology_for(options, around));
  if (options.part) leave_aside_what_does_not_fit(options, here);
  return options;
}

std::uint64_t common_id(const Bootstrap& bootstrap) {
  std::random_device random;
  const std::uint64_t mine = (std::uint64_t{random()} << 32) | random();
  std::vector<std::uint64_t> all(bootstrap.size);
  bootstrap.all_gather(&mine, all.data(), sizeof mine);
  return all[0];
}

}  // namespace

Ground::Ground(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress)
    : around(std::move(surroundings)),
      options(equal_on_all(around.bootstrap,
                           agreed(around.bootstrap, [&] { return settled(std::move(options), around); }))),
      topology(this->options.placed.value_or(Topology(around.bootstrap.size))),
      id(common_id(around.bootstrap)),
      router(naming("LANECAST_TRANSPORTS", this->options,
                    [&] {
                      return connect(around, topology,
                                     {.transports = this->options.transports,
                                      .ucx_lanes = this->options.ucx_lanes,
                                      .gpu_nics = this->options.gpu_nics,
                                      .on_gpus = this->options.gpu_messages == kDirectMessages});
                    })),
      log(this->options.trace_steps),
      progress(std::move(progress)),
      shown(rank(), router, log, this->options.timeout_s.value_or(kTimeout_s)) {}

int Ground::hosts() const {
  return static_cast<int>(std::set<std::string>(around.hosts.begin(), around.hosts.end()).size());
}

void Ground::share_cores() { rivals = hosts() > 1 ? Rivals::ranks_and_network : Rivals::ranks; }

void Ground::write_trace(const std::string& directory) const {
  lanecast::write_trace(directory, {id, rank(), topology, router->str()}, log);
}

void Ground::keep_trace() const {
  if (options.trace_dir.empty()) return;
  try {
    write_trace(options.trace_dir);
  } catch (const std::exception& error) {  // the failure itself, or the end of the communicator, matters more
    std::fprintf(stderr, "lanecast: rank %d: %s\n", rank(), error.what());
  }
}

}  // namespace lanecast
