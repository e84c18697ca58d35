// SPDX-License-Identifier: Apache-2.0
#include "monitored_barrier.h"

#include <c10/util/Exception.h>

namespace lanecast_torch {

void MonitoredBarrier::pass(std::chrono::milliseconds timeout, std::chrono::milliseconds patience, bool name_all) {
  if (rank_ != 0) {
    watch_.store().set(arrival(round_, rank_), std::string("here"));
    return ask_rank_0(patience);
  }
  const std::vector<int> late = missing(timeout, name_all);
  std::string failure;
  if (!late.empty()) {
    // Gloo's words, by which programs and torch's own tests know them.
    failure = late.size() == 1 ? "Rank " : "Ranks ";
    for (std::size_t k = 0; k < late.size(); ++k) failure += (k == 0 ? "" : ", ") + std::to_string(late[k]);
    failure += " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
  }
  watch_.store().set(outcome(round_), failure);
  TORCH_CHECK_WITH(DistBackendError, late.empty(), "lanecast: Rank 0 timed out in monitoredBarrier: ", failure,
                   name_all ? "" : "; wait_all_ranks=True would name all that are missing");
  for (int peer = 1; peer < size_; ++peer) watch_.store().deleteKey(arrival(round_, peer));
  if (round_ > 0) watch_.store().deleteKey(outcome(round_ - 1));  // all have read it: they have come to this round
}

std::vector<int> MonitoredBarrier::missing(std::chrono::milliseconds timeout, bool name_all) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<int> late;
  for (int peer = 1; peer < size_ && (late.empty() || name_all); ++peer)
    if (!watch_.is_set_by(deadline, arrival(round_, peer))) late.push_back(peer);
  return late;
}

void MonitoredBarrier::ask_rank_0(std::chrono::milliseconds patience) {
  const bool told = watch_.is_set_by(std::chrono::steady_clock::now() + patience, outcome(round_));
  const std::string failure = told ? watch_.store().get_to_str(outcome(round_))
                                   : "it did not come in " + std::to_string(patience.count()) + " ms";
  TORCH_CHECK_WITH(DistBackendError, failure.empty(), "lanecast: Rank ", rank_,
                   " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank ",
                   "0: ", failure);
}

std::string MonitoredBarrier::arrival(std::uint64_t round, int rank) {
  return "lanecast/monitored/" + std::to_string(round) + "/" + std::to_string(rank);
}

std::string MonitoredBarrier::outcome(std::uint64_t round) {
  return "lanecast/monitored/" + std::to_string(round) + "/outcome";
}

}  // namespace lanecast_torch
