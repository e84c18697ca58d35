// SPDX-License-Identifier: Apache-2.0
// Seconds of one algorithm among the ranks of one level.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/registry.h"
#include "select/models.h"

namespace lanecast {

struct Load {
  Kind kind{};
  std::size_t bytes = 0;  // the full buffer of these ranks
  int ranks = 1;
  int level = kAllRanks;  // as in Fit
  bool on_gpus = false;   // as in Request
};

/// Of Link::filling, what a call of so many bytes goes by. Fewer than 128 KiB are taken for a call that stands alone:
/// by 8 ranks of a host a pipeline makes 64 KiB a tenth faster in a row, and a third slower alone.
inline double filling_for(std::size_t bytes, double filling) { return bytes < std::size_t{128} << 10 ? 1 : filling; }

/// What one level does of a call, or all of a flat one.
struct Stage {
  double rounds = 0;
  double alpha_s = 0;      // a round's
  double transfer_s = 0;   // of all bytes that the busiest rank sends, and adds; of a pipeline: in each round
  double hidden_s = 0;     // of that, what many chunks hide: bytes that are added while others move
  double chunk_s = 0;      // what each further chunk costs besides
  bool pipelined = false;  // chunks follow each other through the rounds
  bool measured = false;   // from a fit of this very algorithm
  double load = 1;         // what all ranks do, shared out evenly over the cores, over what the busiest rank does
  double messages = 1;     // of a pipeline: for each chunk
  double filling = 1;      // of a pipeline, as in Link
  double gap_s = 0;        // no message follows another faster
  bool at_once = false;    // those of a chunk wait for nothing but this gap: one round of latency for all
  double sends = 0;        // messages that the busiest rank sends for each chunk
  double sent_bytes = 0;   // by the busiest rank, in all chunks together
  double asking_s = 0;     // what chunks spare whose messages, of sums, are so short that they leave unasked
  std::size_t asks_from = SIZE_MAX;  // as in Traits

  /// Are its messages asked for, in so many chunks?
  bool asks(int chunks) const { return sent_bytes / std::max(1.0, sends * chunks) >= static_cast<double>(asks_from); }
  /// Each further chunk adds this share of the rounds' latency.
  double seconds(int chunks, double latency_share) const;
};

/// The registry's word on an algorithm that is not hierarchical. Throws UsageError for a name that does not exist.
Cost cost_of(std::string_view name, Kind kind, int ranks);

Stage flat(std::string_view name, const Load& load, const Models& models);
/// Of a broadcast's or reduce's inner levels: everyone has a stripe, and all are gathered.
Stage gather(std::string_view name, const Load& load, const Models& models);
/// Of handing everyone a stripe of the root's vector.
Stage stripes(const Load& load, const Models& models);

std::vector<int> largest_groups(const Topology& topology);

}  // namespace lanecast
