// SPDX-License-Identifier: Apache-2.0
#include "simulated_ranks.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "composed.h"
#include "device.h"

namespace lanecast::simulator {

SimulatedRanks::SimulatedRanks(const Job& job, Network& network)
    : network_(network),
      office_(network),
      call_(new CallToRun{job, Topology::parse(job.topology, job.ranks),
                          job.algorithm == "composed" ? compose(job.kind(), job.ranks) : nullptr}) {
  for (int rank = 0; rank < job.ranks; ++rank) ranks_.push_back(std::make_unique<SimulatedRank>(*call_, rank, office_));
}

void SimulatedRanks::run() {
  std::size_t messages = 0;
  for (const auto& rank : ranks_) messages += rank->sends();
  progress_.begin(messages);
  for (const auto& rank : ranks_) see_to(*rank);
  network_.run(*this);
  for (const auto& rank : ranks_)
    if (!rank->finished())
      throw InternalError("simulator: rank " + std::to_string(rank->rank()) + " waits for ever, in " +
                          rank->waits_for());
}

double SimulatedRanks::seconds() const {
  double last_s = 0;
  for (const auto& rank : ranks_) last_s = std::max(last_s, rank->busy_until_s());
  return last_s;
}

std::size_t SimulatedRanks::wrong_elements() const {
  std::size_t wrong = 0;
  for (const auto& rank : ranks_) wrong += rank->wrong_elements();
  return wrong;
}

void SimulatedRanks::arrived(const Parcel& parcel) {
  if (holds_data()) std::memcpy(parcel.received->memory[0].data, parcel.sent->memory[0].data, parcel.received->bytes);
  for (const auto& [rank, message] : {std::pair(parcel.from, parcel.sent), std::pair(parcel.to, parcel.received)}) {
    ranks_[rank]->finish(*message, network_.now_s());
    see_to(*ranks_[rank]);
  }
  progress_.note();
}

void SimulatedRanks::woken(int number) {
  SimulatedRank& rank = *ranks_[number];
  rank.is_to_be_woken = false;
  rank.go_on(network_.now_s());
  see_to(rank);
}

void SimulatedRanks::see_to(SimulatedRank& rank) {
  if (rank.is_to_be_woken || !rank.wants_to_go_on()) return;
  rank.is_to_be_woken = true;
  network_.wake(rank.rank(), rank.busy_until_s());
}

}  // namespace lanecast::simulator
