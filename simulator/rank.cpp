// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "buffers.h"
#include "composed.h"
#include "device.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/persistent.h"
#include "selection.h"
#include "transport/mpi/communicator.h"

namespace lanecast::simulator {
namespace {

double now_s() { return simgrid::s4u::Engine::get_clock(); }

}  // namespace

Ranks::Ranks(const Job& job) : job_(job), together_(simgrid::s4u::Barrier::create(job.ranks)), done_s_(job.ranks) {
  if (job.algorithm == "composed") composition_ = compose(job.kind(), job.ranks);
}

Bootstrap Ranks::bootstrap(int rank) {
  Bootstrap bootstrap{.rank = rank, .size = job_.ranks, .all_gather = {}};
  bootstrap.all_gather = [this, rank](const void* in, void* out, std::size_t bytes) {
    if (bytes == 0) return;
    gathered_.resize(bytes * static_cast<std::size_t>(job_.ranks));
    std::memcpy(gathered_.data() + rank * bytes, in, bytes);
    together_->wait();
    std::memcpy(out, gathered_.data(), gathered_.size());
    together_->wait();  // before the next all-gather writes there
  };
  return bootstrap;
}

void Ranks::run(int rank) {
  MPI_Init(nullptr, nullptr);
  Buffers buffers(job_, rank);
  std::unique_ptr<Communicator> comm;
  if (job_.algorithm != "mpi") {
    Surroundings around;
    around.bootstrap = bootstrap(rank);
    around.mpi =
        MpiCommunicator::duplicate(load_mpi({}), MpiComm{reinterpret_cast<std::uintptr_t>(MPI_COMM_WORLD)}, {1, {}});
    const int per_node = job_.machine.ranks_per_node();
    for (int r = 0; r < job_.ranks; ++r) around.hosts.push_back(std::to_string(r / per_node));
    CommunicatorOptions options;
    options.topology = job_.topology;
    options.transports = "mpi";
    options.check_calls = false;
    options.from_environment = false;
    options.executor.window = job_.window;
    comm = std::make_unique<Communicator>(std::move(around), std::move(options), std::make_shared<ProgressThread>());
  } else {
    prepare_selection();
  }

  std::optional<PersistentCall> composed;
  if (composition_) composed.emplace(*comm, buffers.composed(composition_));
  together_->wait();
  begin_s_ = now_s();
  if (composed)
    composed->run();
  else if (comm)
    comm->run(buffers.call());
  else
    run_selected(buffers.call());
  settle();
  done_s_[rank] = now_s();
  together_->wait();
  wrong_ += buffers.wrong();
  composed.reset();
  comm.reset();
  MPI_Finalize();
}

double Ranks::seconds() const { return *std::ranges::max_element(done_s_) - begin_s_; }

}  // namespace lanecast::simulator
