// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "topology/topology.h"

namespace lanecast {

std::vector<int> assign_nics(int ranks, int nics, NicMap map) {
  if (ranks < 1 || nics < 1) throw UsageError("nics: a node needs at least one rank and one NIC");
  if (map == NicMap::one_to_one && ranks != nics)
    throw UsageError("nics: one-to-one needs as many NICs as ranks, not " + std::to_string(nics) + " NICs for " +
                     std::to_string(ranks) + " ranks; use packed or round_robin");
  std::vector<int> nic(ranks);
  for (int r = 0; r < ranks; ++r)
    nic[r] = map == NicMap::packed ? static_cast<int>(static_cast<long>(r) * nics / ranks) : r % nics;
  return nic;
}

double nic_balance(const std::vector<int>& nic_of_rank, int nics) {
  if (nics < 1) throw UsageError("nics: a node needs at least one NIC, not " + std::to_string(nics));
  if (nic_of_rank.empty()) throw UsageError("nic_of_rank: a node needs at least one rank");
  std::vector<int> load(nics);
  for (int nic : nic_of_rank) {
    if (nic < 0 || nic >= nics)
      throw UsageError("nic_of_rank: NIC " + std::to_string(nic) + " does not exist among " + std::to_string(nics));
    ++load[nic];
  }
  return static_cast<double>(nic_of_rank.size()) /
         (static_cast<double>(nics) * *std::max_element(load.begin(), load.end()));
}

}  // namespace lanecast
