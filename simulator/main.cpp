// SPDX-License-Identifier: Apache-2.0
// A collective on a simulated machine: this program is all ranks at once. Prints one line of JSON.
#include <smpi/smpi.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "device.h"
#include "flow_network.h"
#include "job.h"
#include "memory.h"
#include "mpi_ranks.h"
#include "platform.h"
#include "simgrid_network.h"
#include "simulated_ranks.h"

namespace lanecast::simulator {
namespace {

/// Plain links without a model of TCP; waiting is simulated, computing is not, since devices are charged apart;
/// messages of any size wait for their receiver; looking whether one has come takes no time.
constexpr const char* kSettings[] = {
    "network/model:CM02",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "contexts/stack-size:256",
    "smpi/test:0",
    "smpi/iprobe:0",
    "smpi/simulate-computation:no",
    "smpi/host-speed:1Gf",
    "smpi/privatization:no",
    "smpi/send-is-detached-thresh:0",
    "smpi/shared-malloc:global",
    "smpi/shared-malloc-blocksize:1048576",
};

struct Found {
  double seconds;
  std::size_t wrong_elements;
};

simgrid::s4u::Engine start_engine(const Job& job, char* program) {
  std::vector<std::string> words{program, "--log=root.thres:error"};
  for (const char* setting : kSettings) words.push_back(std::string("--cfg=") + setting);
  for (const std::string& setting : job.settings) words.push_back("--cfg=" + setting);
  std::array<char, 64> setting{};
  std::snprintf(setting.data(), setting.size(), "--cfg=smpi/ois:0:%.9g:0", job.message_s);
  if (job.message_s > 0) words.emplace_back(setting.data());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  smpi_init_options();  // before the engine, which would not know SMPI's settings
  return simgrid::s4u::Engine(&count, arguments.data());
}

Found run_mpi(const Job& job, const simgrid::s4u::Engine& engine) {
  SMPI_init();
  MpiRanks ranks(job);
  ranks.start(build_platform(job.machine, job.ranks));
  engine.run();
  SMPI_finalize();
  return {ranks.seconds(), ranks.wrong_elements()};
}

Found run_lanecast(const Job& job, Network& network) {
  SimulatedRanks ranks(job, network);
  ranks.run();
  return {ranks.seconds(), ranks.wrong_elements()};
}

Found run(const Job& job, char* program) {
  if (!job.is_checked) pretend_memory();
  set_devices({job.machine.memory_rate_Bps, job.is_checked});
  const simgrid::s4u::Engine engine = start_engine(job, program);
  if (job.algorithm == "mpi") return run_mpi(job, engine);
  if (job.by_simgrid) {
    SimGridNetwork network(engine, build_platform(job.machine, job.ranks));
    return run_lanecast(job, network);
  }
  FlowNetwork network(job.machine, job.ranks, job.accidents);
  return run_lanecast(job, network);
}

void simulate(int argc, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  const Found found = run(parse(argc, argv), argv[0]);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"seconds\": %.9g, \"wrong_elements\": %zu, \"wall_s\": %.3f, \"memory_MiB\": %ld}\n", found.seconds,
              found.wrong_elements, wall_s, usage.ru_maxrss / 1024);
}

}  // namespace
}  // namespace lanecast::simulator

int main(int argc, char** argv) {
  try {
    lanecast::simulator::simulate(argc, argv);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
