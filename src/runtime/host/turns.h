// SPDX-License-Identifier: Apache-2.0
// Whose turn it is where chunks go one at a time, in order, while everything else goes on: at a group, whose members
// must post its calls in the same order though the chunk that gets there first differs from rank to rank; and at a step
// that sends over a wire, on which messages of several chunks would only slow each other down, arrive together, and
// leave the wire to nobody while the levels behind it work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lanecast {

class ChunkRun;

class Turns {
 public:
  void begin(std::size_t places, std::int32_t first_chunk) {
    next_.assign(places, first_chunk);
    waiting_.clear();
  }

  bool is_turn(std::uint32_t place, std::int32_t chunk) const { return next_[place] == chunk; }
  void wait(std::uint32_t place, std::int32_t chunk, ChunkRun* run) { waiting_.push_back({place, chunk, run}); }

  /// The chunk whose turn it was lets the next one in. Returns the run that has waited for that turn, or null.
  ChunkRun* pass(std::uint32_t place) {
    const std::int32_t chunk = ++next_[place];
    const auto found =
        std::ranges::find_if(waiting_, [&](const WaitingRun& w) { return w.place == place && w.chunk == chunk; });
    if (found == waiting_.end()) return nullptr;
    ChunkRun* const run = found->run;
    waiting_.erase(found);
    return run;
  }

 private:
  struct WaitingRun {
    std::uint32_t place;
    std::int32_t chunk;
    ChunkRun* run;
  };
  std::vector<std::int32_t> next_;   // chunk, of each place
  std::vector<WaitingRun> waiting_;  // at most the chunks in flight for each place
};

}  // namespace lanecast
