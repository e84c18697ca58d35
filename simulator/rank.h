// SPDX-License-Identifier: Apache-2.0
// What every simulated rank does: makes a communicator, calls the collective once, and says when it was done.
#pragma once

#include <memory>
#include <simgrid/s4u.hpp>
#include <vector>

#include "base/bootstrap.h"
#include "job.h"
#include "plan/composition.h"

namespace lanecast::simulator {

/// What the ranks share: they are actors of one thread. What is not simulated, such as their coming together, costs
/// nothing here.
class Ranks {
 public:
  explicit Ranks(const Job& job);

  /// The body of one rank.
  void run(int rank);
  /// From the moment when all ranks called until the last had its result.
  double seconds() const;
  std::size_t wrong_elements() const { return wrong_; }

 private:
  Bootstrap bootstrap(int rank);

  const Job& job_;
  std::shared_ptr<const Composition> composition_;  // none: a call of the library's own collectives
  simgrid::s4u::BarrierPtr together_;
  std::vector<std::byte> gathered_;  // of the all-gather under way
  double begin_s_ = 0;
  std::vector<double> done_s_;  // of each rank
  std::size_t wrong_ = 0;
};

}  // namespace lanecast::simulator
