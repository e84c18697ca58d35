// SPDX-License-Identifier: Apache-2.0
#include "mpi_ranks.h"

#include <mpi.h>
#include <smpi/smpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "buffers.h"
#include "selection.h"

namespace lanecast::simulator {
namespace {

constexpr const char* kInstance = "lanecast";

double now_s() { return simgrid::s4u::Engine::get_clock(); }

}  // namespace

MpiRanks::MpiRanks(const Job& job)
    : job_(job), together_(simgrid::s4u::Barrier::create(job.ranks)), done_s_(job.ranks) {}

void MpiRanks::start(const std::vector<simgrid::s4u::Host*>& hosts) {
  SMPI_app_instance_register(kInstance, nullptr, static_cast<int>(hosts.size()));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::string number = std::to_string(rank);
    const auto actor = simgrid::s4u::Actor::init("rank" + number, hosts[rank]);
    actor->set_property("instance_id", kInstance);
    actor->set_property("rank", number);
    actor->start([this, rank] {
      try {
        run(static_cast<int>(rank));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %zu: %s\n", rank, error.what());
        std::_Exit(EXIT_FAILURE);  // the others would wait for it
      }
    });
  }
}

void MpiRanks::run(int rank) {
  MPI_Init(nullptr, nullptr);
  const Buffers buffers(job_, rank);
  prepare_selection();
  together_->wait();
  begin_s_ = now_s();
  run_selected(buffers.call(), rank);
  done_s_[rank] = now_s();
  together_->wait();
  wrong_ += buffers.wrong();
  MPI_Finalize();
}

double MpiRanks::seconds() const { return *std::ranges::max_element(done_s_) - begin_s_; }

}  // namespace lanecast::simulator
