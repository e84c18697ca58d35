// SPDX-License-Identifier: Apache-2.0
// What is to be simulated: one collective on one machine. Python has read the machine's file and chosen the algorithm.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/kind.h"

namespace lanecast::simulator {

/// A level inside a node, outermost first.
struct LevelLinks {
  int size = 1;              // domains in each domain around them
  double rate_Bps = 0;       // per direction: of each pair of ranks that part here, or of a rank's port to the switch
  double latency_s = 0;      // one way
  bool is_switched = false;  // all that a rank exchanges here passes one port
};

struct Machine {
  std::vector<LevelLinks> levels;
  std::vector<int> nic_of_rank;  // of the ranks of a node
  double nic_rate_Bps = 0;       // per direction
  double latency_s = 0;          // one way, between nodes of one group
  int group_nodes = 1;           // nodes that meet without taper
  double group_rate_Bps = 0;     // out of a group, and into it
  double group_latency_s = 0;    // one way, on top, between groups
  double memory_rate_Bps = 0;    // of one rank's device, reading and writing together

  int ranks_per_node() const;
  /// The outermost level at which two ranks of a node are in different domains; of one with itself the innermost.
  std::size_t parting_level(int a, int b) const;
};

struct Job {
  Machine machine;
  int ranks = 1;
  std::string topology;  // as Topology::parse takes it
  std::string collective;
  std::string algorithm;     // Lanecast's, "mpi": what the selection of an MPI takes, or "composed"
  std::vector<int> factors;  // of a composition's hierarchy, as Shaping::factors
  int chunks = 1;
  int window = 256;  // as ExecutorOptions::window
  // Of software, for each message at its sender: to another node, and within one.
  double message_s = 0, message_within_s = 0;
  bool by_simgrid = false;            // the network is SimGrid's own
  unsigned accidents = 0;             // a seed: of messages that come at one moment another is first; 0: as it falls
  std::size_t bytes = 0;              // of the full buffer; of an all-to-all what one rank brings
  bool is_checked = false;            // real data, every element compared; else the memory holds nothing
  std::vector<std::string> settings;  // of SimGrid

  /// Throws UsageError for a collective that is not simulated.
  Kind kind() const;
};

/// From "name=value" words; a name may come again where it is a list. Throws UsageError.
Job parse(int argc, char** argv);

}  // namespace lanecast::simulator
