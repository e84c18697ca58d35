// SPDX-License-Identifier: Apache-2.0
// All ranks of a simulated call: each runs its plan by the library's own executor whenever the network says that
// something has happened to it. They are no threads, so thousands cost what their messages cost.
#pragma once

#include <memory>
#include <vector>

#include "job.h"
#include "network.h"
#include "post_office.h"
#include "progress.h"
#include "simulated_rank.h"

namespace lanecast::simulator {

class SimulatedRanks final : public Network::Ranks {
 public:
  SimulatedRanks(const Job& job, Network& network);

  /// The call, on all ranks. Throws InternalError where a rank does not come to its end.
  void run();
  /// From the moment when all ranks called until the last had its result.
  double seconds() const;
  std::size_t wrong_elements() const;

  void arrived(const Parcel& parcel) override;
  void woken(int rank) override;

 private:
  /// Has it woken when its device is done with what it does, where there is something to be done then.
  void see_to(SimulatedRank& rank);

  Network& network_;
  PostOffice office_;
  std::unique_ptr<const CallToRun> call_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  Progress progress_;
};

}  // namespace lanecast::simulator
