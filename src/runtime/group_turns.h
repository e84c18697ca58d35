// SPDX-License-Identifier: Apache-2.0
// Whose turn it is at a group: members must post the calls on one group in the same order, but which chunk gets there
// first differs from rank to rank. So each group takes the chunks in order; other groups and messages go on meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lanecast {

class ChunkRun;

class GroupTurns {
 public:
  void begin(std::size_t groups) { next_.assign(groups, 0); }

  bool is_turn(std::int32_t group, std::int32_t chunk) const { return next_[group] == chunk; }
  void wait(std::int32_t group, std::int32_t chunk, ChunkRun* run) { waiting_.push_back({group, chunk, run}); }

  /// The chunk whose turn it was has posted. Returns the run that has waited for the next turn, or null.
  ChunkRun* pass(std::int32_t group) {
    const std::int32_t chunk = ++next_[group];
    const auto found =
        std::ranges::find_if(waiting_, [&](const Waiting& w) { return w.group == group && w.chunk == chunk; });
    if (found == waiting_.end()) return nullptr;
    ChunkRun* const run = found->run;
    waiting_.erase(found);
    return run;
  }

 private:
  struct Waiting {
    std::int32_t group, chunk;
    ChunkRun* run;
  };
  std::vector<std::int32_t> next_;  // chunk, of each group
  std::vector<Waiting> waiting_;    // at most the chunks in flight for each group
};

}  // namespace lanecast
