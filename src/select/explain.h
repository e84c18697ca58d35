// SPDX-License-Identifier: Apache-2.0
// Why a call takes the algorithm it takes, for people: all candidates with their predicted times, and a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "select/choose.h"
#include "select/peer_engines.h"
#include "select/trial.h"

namespace lanecast {

struct Explanation {
  Kind kind{};
  std::size_t bytes = 0;  // of the full buffer
  Choice chosen;
  std::vector<Choice> candidates;  // the cheapest first
  std::string links;               // what is known of them, where an algorithm has not been measured
  struct LeftOut {
    std::string algorithm, why;
  };
  std::vector<LeftOut> left_out;  // what could not be taken, or of what nothing is known
  bool nccl_is_tried = false;     // on GPUs, since nobody has timed it there

  /// One sentence.
  std::string reason() const;
  /// With a line for each candidate.
  std::string str() const;
};

class PeerLines;
/// Of a call among the GPUs of a host. pinned: the name of an algorithm; empty: the model chooses. has_staging: as in
/// fastest(). no_nccl: why that does not take the call; empty: it does, or nobody has asked.
struct PeerQuestion {
  PeerTraffic traffic;
  std::string_view pinned;
  bool has_staging = false;
  std::string no_nccl;
  bool is_tried = false;                 // the first calls of this size try NCCL beside our kernels
  std::optional<Trials::Seconds> tried;  // what has come of that
};
Explanation explain(const PeerQuestion& question, const PeerLines& lines);

/// What predictions by these models rest on.
std::string known_of_links(const Models& models);

}  // namespace lanecast
