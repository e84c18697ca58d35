// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/surroundings.h"

#include "transport/loopback/world.h"
#include "transport/mpi/communicator.h"

namespace lanecast {

Surroundings among_threads(const std::shared_ptr<LoopbackWorld>& world, int rank) {
  Surroundings around;
  around.bootstrap = world->bootstrap(rank);
  around.world = world;
  around.hosts.assign(world->size(), host_identity());
  return around;
}

namespace {

Surroundings introduced(Bootstrap bootstrap) {
  Surroundings around;
  around.bootstrap = std::move(bootstrap);
  around.hosts = around.bootstrap.all_gather_strings(host_identity());
  return around;
}

/// The all-gather is somebody else's, and whatever follows would be wrong in ways that do not point there.
void check_is_sound(const Bootstrap& bootstrap) {
  const std::string me = "rank " + std::to_string(bootstrap.rank);
  if (bootstrap.size < 1 || bootstrap.rank < 0 || bootstrap.rank >= bootstrap.size)
    throw UsageError(me + " of " + std::to_string(bootstrap.size) + ": ranks go from 0 to the size - 1");
  std::vector<int> ranks(bootstrap.size);
  bootstrap.all_gather(&bootstrap.rank, ranks.data(), sizeof bootstrap.rank);
  for (int r = 0; r < bootstrap.size; ++r)
    if (ranks[r] != r)
      throw UsageError(me + ": all_gather: in the place of rank " + std::to_string(r) +
                       " lies not what it has given but " + std::to_string(ranks[r]) +
                       "; all ranks' bytes are expected, in rank order");
}

}  // namespace

Surroundings among_processes(Bootstrap bootstrap) {
  check_is_sound(bootstrap);
  return introduced(std::move(bootstrap));
}

Surroundings among_mpi(const std::shared_ptr<MpiCommunicator>& mpi) {
  Surroundings around = introduced(mpi_bootstrap(mpi));
  around.mpi = mpi;
  return around;
}

std::string threads_refused(const Surroundings& around) {
  if (!around.mpi || around.mpi->api().init_thread(MpiThreads::multiple) == MpiThreads::multiple) return {};
  return "needs an MPI that was started with MPI_THREAD_MULTIPLE; start it so, or use the blocking call";
}

}  // namespace lanecast
