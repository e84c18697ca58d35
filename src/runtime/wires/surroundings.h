// SPDX-License-Identifier: Apache-2.0
// What a communicator finds around it when it is made, and the transports that this allows.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "runtime/wires/router.h"
#include "topology/topology.h"

namespace lanecast {

class LoopbackWorld;
class MpiCommunicator;

struct Surroundings {
  Bootstrap bootstrap;
  std::shared_ptr<LoopbackWorld> world;  // ranks are threads
  std::uint64_t channel = 0;             // of that world
  std::shared_ptr<MpiCommunicator> mpi;  // our own, with the same ranks; null where no MPI runs
  /// Puts another transport around each that is opened, as tests do to slow links down; usually empty. `ranks`: the
  /// members, by their ranks in the communicator that was made with it and not by a split.
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>, const std::vector<int>& ranks)> decorate;
  std::vector<std::string> hosts;  // of each rank
};

/// One kernel's boot id, its host name and the process namespace: ranks that agree share memory. LANECAST_HOST
/// overrides it, which makes several hosts of one.
std::string host_identity();

// Collective.
Surroundings among_threads(const std::shared_ptr<LoopbackWorld>& world, int rank);
Surroundings among_mpi(const std::shared_ptr<MpiCommunicator>& mpi);
Surroundings among_processes(Bootstrap bootstrap);

struct Wanted {
  std::string transports;        // "mpi,shm": one per level, outermost first, or one for all; empty: the fastest
  std::optional<int> ucx_lanes;  // see CommunicatorOptions
  std::string gpu_nics;          // likewise
  bool on_gpus = false;          // messages have to lie on GPUs, which lanes do not take
};

/// Opens what is wanted, else what is fastest to each peer. Collective. Throws UsageError for unknown names and peers
/// that cannot be reached.
std::unique_ptr<Router> connect(const Surroundings& around, const Topology& topology, const Wanted& wanted);

/// Why calls may not be moved by a thread of ours here ("needs …"), or empty.
std::string threads_refused(const Surroundings& around);

/// Names of all transports, in order of preference.
std::vector<std::string> transport_names();

}  // namespace lanecast
