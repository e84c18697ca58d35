// SPDX-License-Identifier: Apache-2.0
// Transports by name: one row each. The order is that of preference, but for UCX, which may go before MPI.
#include <algorithm>

#include "base/agreed.h"
#include "runtime/wires/level_names.h"
#include "runtime/wires/surroundings.h"
#include "transport/emulated/transport.h"
#include "transport/loopback/transport.h"
#include "transport/mpi/mpi.h"
#include "transport/shm/transport.h"
#include "transport/ucx/transport.h"

namespace lanecast {
namespace {

struct TransportRow {
  std::string_view name;
  bool (*reaches)(const Surroundings&, const Wanted&, int peer);
  std::unique_ptr<Transport> (*open)(const Surroundings&, const Wanted&);  // collective over all ranks
  std::string_view needs;
};

bool same_host(const Surroundings& around, int peer) {
  return !around.world && around.hosts[peer] == around.hosts[around.bootstrap.rank];
}

std::unique_ptr<Transport> open_shm(const Surroundings& around, const Wanted&) {
  std::vector<int> local;
  for (int r = 0; r < around.bootstrap.size; ++r)
    if (same_host(around, r)) local.push_back(r);
  return std::make_unique<ShmTransport>(around.bootstrap, local);
}

std::unique_ptr<Transport> open_emulated(const Surroundings& around, const Wanted& wanted) {
  const std::string& host = around.hosts[around.bootstrap.rank];
  return std::make_unique<EmulatedTransport>(around.bootstrap, wanted.gpu_nics, host.substr(0, host.find(' ')));
}

int ucx_lanes(const Surroundings& around, const Wanted& wanted) {
  if (wanted.ucx_lanes) return *wanted.ucx_lanes;
  const auto neighbours = std::ranges::count(around.hosts, around.hosts[around.bootstrap.rank]);
  return ucx::lanes_that_pay(static_cast<int>(neighbours));
}

const TransportRow kTransportRows[] = {
    {"loopback", [](const Surroundings& around, const Wanted&, int) { return around.world != nullptr; },
     [](const Surroundings& around, const Wanted&) -> std::unique_ptr<Transport> {
       return std::make_unique<LoopbackTransport>(around.world, around.bootstrap.rank, around.channel);
     },
     "ranks that are threads of one process"},
    {"shm", [](const Surroundings& around, const Wanted&, int peer) { return same_host(around, peer); }, open_shm,
     "ranks that are processes of one host"},
    {"emulated",
     [](const Surroundings& around, const Wanted& wanted, int) { return !around.world && !wanted.gpu_nics.empty(); },
     open_emulated, "emulated NICs: LANECAST_GPU_NICS, see lanecast cluster run --gpu-nics"},
    {"mpi", [](const Surroundings& around, const Wanted&, int) { return around.mpi != nullptr; },
     [](const Surroundings& around, const Wanted&) -> std::unique_ptr<Transport> {
       return std::make_unique<MpiTransport>(around.mpi);
     },
     "a start under mpirun, mpiexec or srun"},
    {"ucx", [](const Surroundings& around, const Wanted&, int) { return around.world == nullptr; },
     [](const Surroundings& around, const Wanted& wanted) -> std::unique_ptr<Transport> {
       return std::make_unique<UcxTransport>(around.bootstrap, ucx_lanes(around, wanted),
                                             wanted.on_gpus ? ucx::Drivers::called : ucx::Drivers::apart);
     },
     "ranks that are processes"},
};

int row_named(const std::string& name) {
  std::string known;
  for (int k = 0; k < static_cast<int>(std::size(kTransportRows)); ++k) {
    if (kTransportRows[k].name == name) return k;
    known += " " + std::string(kTransportRows[k].name);
  }
  throw UsageError("transports: unknown name '" + name + "'; known:" + known);
}

/// Whether UCX goes before MPI on all ranks, where both would reach other hosts. Collective.
bool ucx_before_mpi(const Surroundings& around, const Wanted& wanted) {
  const bool choice = around.mpi && std::ranges::count(around.hosts, around.hosts[0]) < around.bootstrap.size;
  if (!choice) return false;  // alike on all ranks
  const std::uint8_t mine =
      !wanted.on_gpus && ucx::better_than_mpi(ucx_lanes(around, wanted), wanted.ucx_lanes.has_value());
  std::vector<std::uint8_t> all(around.bootstrap.size);
  around.bootstrap.all_gather(&mine, all.data(), sizeof mine);
  return std::ranges::find(all, 0) == all.end();
}

/// Row of the first transport that reaches each peer; -1 for this rank itself.
std::vector<int> first_rows(const Surroundings& around, const Wanted& wanted, bool ucx_before_mpi) {
  const int me = around.bootstrap.rank;
  std::vector<int> row_of_peer(around.bootstrap.size, -1);
  for (int peer = 0; peer < around.bootstrap.size; ++peer) {
    if (peer == me) continue;
    const auto row = std::find_if(std::begin(kTransportRows), std::end(kTransportRows), [&](const TransportRow& r) {
      return r.reaches(around, wanted, peer) && !(ucx_before_mpi && r.name == "mpi");
    });
    if (row == std::end(kTransportRows))
      throw UsageError("rank " + std::to_string(me) + ": no transport reaches rank " + std::to_string(peer) + " on " +
                       around.hosts[peer] + "; start the job with mpirun, mpiexec or srun");
    row_of_peer[peer] = static_cast<int>(row - std::begin(kTransportRows));
  }
  return row_of_peer;
}

/// Rows of those that the user has named.
std::vector<int> wanted_rows(const Surroundings& around, const Topology& topology, const Wanted& wanted) {
  const int me = around.bootstrap.rank;
  std::vector<int> row_of_peer = LevelNames(wanted.transports, topology, "topology").of_peers(me, row_named);
  for (int peer = 0; peer < topology.size(); ++peer) {
    if (peer == me) continue;
    const TransportRow& row = kTransportRows[row_of_peer[peer]];
    if (!row.reaches(around, wanted, peer))
      throw UsageError("transports '" + wanted.transports + "': " + std::string(row.name) + " does not reach rank " +
                       std::to_string(peer) + " from rank " + std::to_string(me) + "; it needs " +
                       std::string(row.needs));
  }
  return row_of_peer;
}

}  // namespace

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const TransportRow& row : kTransportRows) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Router> connect(const Surroundings& around, const Topology& topology, const Wanted& wanted) {
  const std::string& names = wanted.transports;
  const bool ucx_first = names.empty() && ucx_before_mpi(around, wanted);
  const std::vector<int> row_of_peer = agreed(around.bootstrap, [&] {
    return names.empty() ? first_rows(around, wanted, ucx_first) : wanted_rows(around, topology, wanted);
  });

  // Opening is collective, so every rank opens what any rank uses, in the same order. MPI, where it runs, is always
  // opened: its own collectives are an algorithm.
  std::vector<std::uint8_t> mine(std::size(kTransportRows)), all(mine.size() * topology.size());
  for (int row : row_of_peer)
    if (row >= 0) mine[row] = 1;
  if (around.mpi) mine[row_named("mpi")] = 1;
  around.bootstrap.all_gather(mine.data(), all.data(), mine.size());
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<int> index(mine.size(), -1);
  for (std::size_t k = 0; k < mine.size(); ++k) {
    bool used = false;
    for (int r = 0; r < topology.size(); ++r) used |= all[r * mine.size() + k] != 0;
    if (!used) continue;
    index[k] = static_cast<int>(transports.size());
    transports.push_back(kTransportRows[k].open(around, wanted));
    if (around.decorate) transports.back() = around.decorate(std::move(transports.back()), topology.everyone());
  }
  std::vector<int> by_peer;
  by_peer.reserve(row_of_peer.size());
  for (int row : row_of_peer) by_peer.push_back(row < 0 ? -1 : index[row]);
  return std::make_unique<Router>(std::move(transports), std::move(by_peer));
}

}  // namespace lanecast
