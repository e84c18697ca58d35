// SPDX-License-Identifier: Apache-2.0
#include "select/models.h"

#include <algorithm>
#include <iterator>

namespace lanecast {

std::string_view name_of(LinkSource source) {
  switch (source) {
    case LinkSource::timed:
      return "timed";
    case LinkSource::given:
      return "given";
    case LinkSource::file:
      return "from a profile";
    default:
      return "assumed";
  }
}

const Fit* Models::find(Kind kind, std::string_view algorithm, int level, std::size_t bytes) const {
  const Fit* best = nullptr;  // the last that begins at or below `bytes`; below the first, the first
  for (const Fit& fit : fits) {
    if (fit.kind != kind || fit.level != level || fit.algorithm != algorithm) continue;
    const bool better = best == nullptr || (fit.from_bytes <= bytes ? fit.from_bytes > best->from_bytes
                                                                    : fit.from_bytes < best->from_bytes);
    if (better) best = &fit;
  }
  return best;
}

Overlap Models::overlap(Kind kind) const {
  for (const Overlap& overlap : overlaps)
    if (overlap.kind == kind) return overlap;
  return {kind};
}

const Pin* Models::pin(Kind kind, std::size_t bytes) const {
  for (const Pin& pin : pins)
    if (pin.kind == kind && pin.least_bytes <= bytes && bytes <= pin.most_bytes) return &pin;
  return nullptr;
}

Models subset(const Models& models, const Topology& topology, const std::vector<int>& ranks) {
  Models kept{
      {}, models.reduce_s_per_byte, {}, models.overlaps, {}, models.pins, models.peers, {}, models.timing, models.gpu};
  const bool alike = same_nodes(topology, topology.subset(ranks));
  if (alike) kept.learned = models.learned;
  std::ranges::copy_if(models.gpu_models, std::back_inserter(kept.gpu_models),
                       [&](const GpuModel& each) { return each.one_host || alike; });
  std::vector<int> new_level(topology.levels() + 1, -1);
  for (int k = 0; k <= topology.levels(); ++k) {
    if (k < topology.levels() && !topology.divides(ranks, k)) continue;
    new_level[k] = static_cast<int>(kept.links.size());
    kept.links.push_back(models.links[k]);
  }
  // Ranks that all meet at one level are to each other what that level's groups were; others keep what all ranks had.
  int meeting = 0;
  while (meeting < topology.levels() && !topology.divides(ranks, meeting)) ++meeting;
  const bool one_level = meeting == topology.levels() || topology.partition(ranks, meeting).size() == ranks.size();
  const bool everyone = static_cast<int>(ranks.size()) == topology.size();
  for (Fit fit : models.fits) {
    if (fit.level == kAllRanks) {
      if (everyone || !one_level || topology.levels() == 0) kept.fits.push_back(std::move(fit));
      continue;
    }
    if (!everyone && one_level && fit.level == meeting) {
      Fit flat = fit;
      flat.level = kAllRanks;
      kept.fits.push_back(std::move(flat));
    }
    fit.level = new_level[fit.level];
    if (fit.level >= 0) kept.fits.push_back(std::move(fit));
  }
  return kept;
}

}  // namespace lanecast
