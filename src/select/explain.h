// SPDX-License-Identifier: Apache-2.0
// Why a call takes the algorithm it takes, for people: all candidates with their predicted times, and a sentence.
#pragma once

#include <string>
#include <vector>

#include "select/choose.h"

namespace lanecast {

struct Explanation {
  Kind kind{};
  std::size_t bytes = 0;  // of the full buffer
  Choice chosen;
  std::vector<Choice> candidates;  // the cheapest first
  std::string links;               // what is known of them, where an algorithm has not been measured

  /// One sentence.
  std::string reason() const;
  /// With a line for each candidate.
  std::string str() const;
};

/// What predictions by these models rest on.
std::string known_of_links(const Models& models);

}  // namespace lanecast
