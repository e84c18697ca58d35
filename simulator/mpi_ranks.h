// SPDX-License-Identifier: Apache-2.0
// What ranks of an MPI library do, as actors of SMPI: start MPI, call the collective once, and say when it was done.
#pragma once

#include <simgrid/s4u.hpp>
#include <vector>

#include "job.h"

namespace lanecast::simulator {

class MpiRanks {
 public:
  explicit MpiRanks(const Job& job);

  /// Each an actor on its host.
  void start(const std::vector<simgrid::s4u::Host*>& hosts);
  /// From the moment when all ranks called until the last had its result.
  double seconds() const;
  std::size_t wrong_elements() const { return wrong_; }

 private:
  void run(int rank);

  const Job& job_;
  simgrid::s4u::BarrierPtr together_;
  double begin_s_ = 0;
  std::vector<double> done_s_;  // of each rank
  std::size_t wrong_ = 0;
};

}  // namespace lanecast::simulator
