// SPDX-License-Identifier: Apache-2.0
// Lanecast on a simulated machine: this program is all ranks at once, under SimGrid's SMPI. Prints one line of JSON.
#include <smpi/smpi.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "device.h"
#include "job.h"
#include "memory.h"
#include "platform.h"
#include "rank.h"
#include "shortcuts.h"

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
constexpr const char* kInstance = "lanecast";

void start_ranks(const std::vector<simgrid::s4u::Host*>& hosts, Ranks& ranks) {
  SMPI_app_instance_register(kInstance, nullptr, static_cast<int>(hosts.size()));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::string number = std::to_string(rank);
    const auto actor = simgrid::s4u::Actor::init("rank" + number, hosts[rank]);
    actor->set_property("instance_id", kInstance);
    actor->set_property("rank", number);
    actor->start([&ranks, rank] {
      try {
        ranks.run(static_cast<int>(rank));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %zu: %s\n", rank, error.what());
        std::_Exit(EXIT_FAILURE);  // the others would wait for it
      }
    });
  }
}

int simulate(int argc, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  const Job job = parse(argc, argv);
  std::vector<std::string> words{argv[0], "--log=root.thres:error"};
  for (const char* setting : kSettings) words.push_back(std::string("--cfg=") + setting);
  for (const std::string& setting : job.settings) words.push_back("--cfg=" + setting);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  smpi_init_options();  // before the engine, which would not know SMPI's settings
  simgrid::s4u::Engine engine(&count, arguments.data());
  SMPI_init();

  if (!job.is_checked) pretend_memory();
  if (job.posts_at_once) post_at_once();
  set_devices({job.machine.memory_rate_Bps, job.is_checked}, job.ranks);
  Ranks ranks(job);
  start_ranks(build_platform(job.machine, job.ranks), ranks);
  engine.run();
  SMPI_finalize();

  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"seconds\": %.9g, \"wrong_elements\": %zu, \"wall_s\": %.3f, \"memory_MiB\": %ld}\n", ranks.seconds(),
              ranks.wrong_elements(), wall_s, usage.ru_maxrss / 1024);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace lanecast::simulator

int main(int argc, char** argv) {
  try {
    return lanecast::simulator::simulate(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
