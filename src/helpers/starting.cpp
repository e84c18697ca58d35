// SPDX-License-Identifier: Apache-2.0
#include "helpers/starting.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "base/error.h"
#include "helpers/gathering.h"
#include "runtime/wires/surroundings.h"

namespace lanecast::helpers {
namespace {

/// Of the leaders' communicator alone, or told in what `make` says.
constexpr std::array<std::string_view, 6> kNotForHelpers{"LANECAST_TRACE_DIR",         "LANECAST_TRACE_STEPS",
                                                         "LANECAST_PROCESSES_PER_GPU", "LANECAST_TOPOLOGY",
                                                         "LANECAST_TRANSPORTS",        "LANECAST_ALGORITHM"};

std::vector<int> cores_here() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) found.push_back(core);
  return found;
}

std::string crowding(int rank, std::size_t cores, std::size_t processes) {
  return "rank " + std::to_string(rank) + ": processes_per_gpu: the leaders on this host and their helpers are " +
         std::to_string(processes) + " processes, and they may run on " + std::to_string(cores) +
         " cores; take fewer, let the launcher bind each rank to more cores, or set allow_shared_cores "
         "(LANECAST_ALLOW_SHARED_CORES=1) to try things out";
}

void refuse_together(Communicator& core, const std::string& refusal) {
  for (const nlohmann::json& said : gather(core, refusal))
    if (const auto text = said.get<std::string>(); !text.empty()) throw UsageError(text);
}

nlohmann::json topology_of(const Topology& topology) {
  nlohmann::json levels = nlohmann::json::array();
  for (int k = 0; k < topology.levels(); ++k) levels.push_back({topology.level(k).name, topology.level(k).domain});
  return {{"size", topology.size()}, {"levels", levels}};
}

/// Helpers are no ranks of an MPI, whoever has started the leaders.
std::string beyond_reach(const Communicator& core) {
  const std::string& transports = core.options().transports;
  if (!has_level(transports, kMpi)) return "";
  return "processes_per_gpu: transports '" + transports +
         "': the library starts these helpers, so they are no ranks of the MPI; name ucx in its place, or leave "
         "transports empty";
}

/// As init() of the package names them. Helpers choose nothing, open no GPU, and write no traces.
nlohmann::json options_of(const Communicator& core) {
  const CommunicatorOptions& options = core.options();
  nlohmann::json found = {{"topology", topology_of(core.topology())},
                          {"links", "assume"},
                          {"timeout_s", options.timeout_s.value_or(kTimeout_s)},
                          {"check_calls", options.check_calls},
                          {"reproducible", options.reproducible.value_or(false)}};
  if (!options.transports.empty()) found["transports"] = options.transports;
  return found;
}

/// The k-th helpers of all ranks find each other by the ranks' own communicator. Collective.
void introduce(Communicator& core, Member& member) {
  member.channel->send({{"do", "make"},
                        {"rank", core.rank()},
                        {"size", core.size()},
                        {"leader", getpid()},
                        {"nics_at_once", core.nics_at_once()},
                        {"options", options_of(core)}});
  while (true) {
    nlohmann::json answer = member.channel->receive();
    if (!answer.is_object())
      answer = {{"error", "TransportError"},
                {"text", "it has ended" + member.process->how_it_has_ended() +
                             " while it started; see what it has "
                             "written, and whether its Python has this version of lanecast"}};
    std::string gathered;
    const std::vector<nlohmann::json> said = gather(core, answer);
    for (std::size_t rank = 0; rank < said.size(); ++rank) {
      if (said[rank].contains("error")) {
        const std::string text = "rank " + std::to_string(rank) + ": helper " + std::to_string(member.place) + ": " +
                                 said[rank].value("text", "");
        if (said[rank].value("error", "") == "UsageError") throw UsageError(text);
        throw TransportError(text);
      }
      gathered += said[rank].value("gather", "");
    }
    if (answer.contains("ready")) return;
    member.channel->send({{"gathered", gathered}});
  }
}

}  // namespace

std::unique_ptr<Crew> start_crew(Communicator& core, const HelpersWanted& wanted) {
  const std::vector<int> cores = cores_here();
  const std::vector<nlohmann::json> seen = gather(core, {host_identity(), cores});
  const nlohmann::json& mine = seen[static_cast<std::size_t>(core.rank())];
  const auto leaders = static_cast<std::size_t>(std::ranges::count(seen, mine));  // that share these cores
  const auto leader = std::count(seen.begin(), seen.begin() + core.rank(), mine);
  const std::size_t processes = leaders * static_cast<std::size_t>(wanted.processes);
  const bool crowded = processes > cores.size() && !wanted.shared_cores;
  refuse_together(core, crowded ? crowding(core.rank(), cores.size(), processes) : beyond_reach(core));
  std::vector<Member> members;
  std::string refusal;
  try {
    for (int place = 1; place < wanted.processes; ++place) {
      auto [ours, theirs] = Channel::make_pair();
      const std::vector<std::string> command = {wanted.python,
                                                "-P",
                                                "-m",
                                                "lanecast.helpers",
                                                std::to_string(HelperProcess::kSocket),
                                                std::to_string(leader),
                                                std::to_string(leaders),
                                                std::to_string(place),
                                                std::to_string(wanted.processes)};
      auto process = std::make_shared<HelperProcess>(command, kNotForHelpers, theirs.get());
      members.push_back({place, std::move(process), std::make_unique<Channel>(std::move(ours))});
    }
  } catch (const Error& error) {
    refusal = "rank " + std::to_string(core.rank()) + ": " + error.what();
  }
  refuse_together(core, refusal);
  for (Member& member : members) introduce(core, member);
  return std::make_unique<Crew>(core, std::move(members));
}

}  // namespace lanecast::helpers
