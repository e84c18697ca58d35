// SPDX-License-Identifier: Apache-2.0
// A topology's ranks put into a row, so that every domain of every level is a run of neighbours.
#pragma once

#include <vector>

#include "topology/topology.h"

namespace lanecast {

/// Places first, …, last - 1 of the row.
struct RowRun {
  int first = 0;
  int last = 0;
  int size() const { return last - first; }
  bool has(int place) const { return first <= place && place < last; }
};

class Hierarchy {
 public:
  explicit Hierarchy(const Topology& topology);

  int size() const { return static_cast<int>(rank_.size()); }
  /// Of domains; the ranks themselves are one level more, number levels().
  int levels() const { return static_cast<int>(runs_.size()) - 1; }
  int rank(int place) const { return rank_[place]; }
  int place(int rank) const { return place_[rank]; }

  /// The domain of a level around a place; level -1 is everything.
  RowRun run(int place, int level) const { return level < 0 ? RowRun{0, size()} : runs_[level][place]; }
  int domains(int level) const;
  int largest(int level) const;

  /// The place in `to` of the same lane that `place` has in `from`; where nodes differ in size, at the same height.
  static int same_lane(int place, RowRun from, RowRun to) {
    return to.first + static_cast<int>(static_cast<long>(place - from.first) * to.size() / from.size());
  }

  /// Is the row that of the ranks?
  bool in_rank_order() const;

 private:
  std::vector<int> rank_, place_;
  std::vector<std::vector<RowRun>> runs_;  // of each level and place
};

}  // namespace lanecast
