// SPDX-License-Identifier: Apache-2.0
#include "runtime/surroundings.h"

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

Surroundings among_mpi(const std::shared_ptr<MpiCommunicator>& mpi) {
  Surroundings around = among_processes(mpi_bootstrap(mpi));
  around.mpi = mpi;
  return around;
}

Surroundings among_processes(Bootstrap bootstrap) {
  Surroundings around;
  around.bootstrap = std::move(bootstrap);
  around.hosts = around.bootstrap.all_gather_strings(host_identity());
  return around;
}

std::string threads_refused(const Surroundings& around) {
  if (!around.mpi || around.mpi->api().init_thread(MpiThreads::multiple) == MpiThreads::multiple) return {};
  return "needs an MPI that was started with MPI_THREAD_MULTIPLE; start it so, or use the blocking call";
}

}  // namespace lanecast
