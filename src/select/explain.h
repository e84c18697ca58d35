// SPDX-License-Identifier: Apache-2.0
// Why a call takes the algorithm it takes, for people: all candidates with their predicted times, and a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "select/choose.h"
#include "select/peer_engines.h"

namespace lanecast {

struct Explanation {
  Kind kind{};
  std::size_t bytes = 0;  // of the full buffer
  Choice chosen;
  std::vector<Choice> candidates;  // the cheapest first
  std::string links;               // what is known of them, where an algorithm has not been measured
  double nccl_s = 0;               // measured, of NCCL's own, which is taken by name alone; 0: not known

  /// One sentence.
  std::string reason() const;
  /// With a line for each candidate.
  std::string str() const;
};

class PeerLines;
/// Of a call among the GPUs of a host. pinned: the name of an algorithm; empty: the model chooses. has_staging: as in
/// fastest().
Explanation explain(const PeerTraffic& traffic, const PeerLines& lines, std::string_view pinned, bool has_staging);

/// What predictions by these models rest on.
std::string known_of_links(const Models& models);

}  // namespace lanecast
