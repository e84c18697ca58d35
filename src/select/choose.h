// SPDX-License-Identifier: Apache-2.0
// Which algorithm, and in how many chunks: a cost model over what the registry says of each algorithm.
#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.h"

namespace lanecast {

/// T(message) = alpha + bytes · beta.
struct Link {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

/// Only values that are equal on every rank may enter, or ranks would choose differently.
struct Request {
  Kind kind{};
  std::size_t bytes = 0;      // the full buffer: all parts, or of an all-to-all those that one rank brings
  std::vector<Link> links;    // per level of the topology, outermost first, and one for the innermost domains
  bool own_counts = false;    // each rank knows its own counts only, so none can forward what others are to get
  bool reproducible = false;  // sums are to be reduced in rank order
};

struct Choice {
  std::string algorithm;
  int chunks = 1;
  double seconds = 0;  // predicted
};

/// Predicted time of one algorithm that algorithms_for() lists.
double predict(const Request& request, const Topology& topology, const std::string& algorithm);

/// Chunks into which a call is cut so that the levels of a hierarchy overlap, or the rounds of a pipeline.
int choose_chunks(const Request& request, const Topology& topology, const std::string& algorithm);

/// Chunks that a reproducible sum needs lest its scratch, which holds all contributions, grow with the message.
int least_chunks(const Request& request, const Topology& topology, const std::string& algorithm);

/// The cheapest of all but the transport's own collectives, which are taken only by name.
Choice choose(const Request& request, const Topology& topology);

}  // namespace lanecast
