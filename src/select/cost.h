// SPDX-License-Identifier: Apache-2.0
// Seconds of one algorithm among the ranks of one level.
#pragma once

#include "select/choose.h"

namespace lanecast {

struct Load {
  std::size_t bytes = 0;  // the full buffer of these ranks
  int ranks = 1;
  Link link;
};

/// The registry's word on an algorithm that is not hierarchical; nothing for a name that does not exist.
Cost cost_of(std::string_view name, Kind kind, int ranks);

double flat_s(std::string_view name, const Load& load, Kind kind);
/// Of a broadcast's or reduce's inner levels: everyone has a stripe, and all are gathered.
double gather_s(std::string_view name, const Load& load, Kind kind);
/// Of handing everyone a stripe of the root's vector.
double stripes_s(const Load& load);

/// Chunks that let the rounds of a pipeline overlap, such that latency and transfer cost the same.
int chunks_of_pipeline(const Cost& cost, const Load& load);
/// Chunks that let the levels of a hierarchy overlap.
int chunks_of_hierarchy(std::size_t bytes);

std::vector<int> largest_groups(const Topology& topology);

}  // namespace lanecast
