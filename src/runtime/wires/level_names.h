// SPDX-License-Identifier: Apache-2.0
// Names of transports given level by level: "mpi,shm" is mpi between nodes and shm within them, "mpi" mpi everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace lanecast {

class LevelNames {
 public:
  /// list: one name, or one per level of the topology, outermost first, with that of the ranks within last. Throws
  /// UsageError for another number of names; `called`: what the topology is to the user.
  LevelNames(const std::string& list, const Topology& topology, std::string_view called);

  /// What `number_of` says of the name that messages from `rank` to each peer go by, -1 for the rank itself. Each name
  /// is asked for, used or not.
  template <class NumberOf>
  std::vector<int> of_peers(int rank, const NumberOf& number_of) const {
    std::vector<int> numbers;
    numbers.reserve(names_.size());
    for (const std::string& name : names_) numbers.push_back(number_of(name));
    std::vector<int> of_peer(topology_.size(), -1);
    for (int peer = 0; peer < topology_.size(); ++peer)
      if (peer != rank) of_peer[peer] = numbers[names_.size() == 1 ? 0 : topology_.parting_level(rank, peer)];
    return of_peer;
  }

  /// The list for a subgroup's topology: without the levels that do not divide these ranks.
  std::string subset(const std::vector<int>& ranks) const;

 private:
  const Topology& topology_;
  std::vector<std::string> names_;
};

}  // namespace lanecast
