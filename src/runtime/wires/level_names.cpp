// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/level_names.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {

LevelNames::LevelNames(const std::string& list, const Topology& topology, std::string_view called)
    : topology_(topology) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names_.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::size_t levels = static_cast<std::size_t>(topology.levels()) + 1;
  if (names_.size() != 1 && names_.size() != levels)
    throw UsageError("transports '" + list + "': " + std::string(called) + " " + topology.str() + " needs one name" +
                     (levels > 1 ? ", or " + std::to_string(levels) + ", outermost level first" : ""));
}

std::string LevelNames::subset(const std::vector<int>& ranks) const {
  if (names_.size() == 1) return names_[0];
  std::string kept;
  for (int k = 0; k <= topology_.levels(); ++k)
    if (k == topology_.levels() || topology_.divides(ranks, k)) kept += (kept.empty() ? "" : ",") + names_[k];
  return kept;
}

}  // namespace lanecast
