// SPDX-License-Identifier: Apache-2.0
// What an algorithm writes on: it names peers and pieces, and never where they lie or what must wait for what.
#pragma once

#include <functional>
#include <vector>

#include "base/group_kind.h"
#include "plan/block.h"

namespace lanecast {

using Ranks = std::vector<int>;
using PieceLists = std::vector<Pieces>;  // one list per member of a group of ranks

class PlanWriter {
 public:
  virtual ~PlanWriter() = default;
  virtual int rank() const = 0;
  // Empty lists emit no step.
  virtual void send(int peer, const Pieces& pieces) = 0;
  virtual void recv(int peer, const Pieces& pieces) = 0;
  /// A whole collective among `ranks`, run by the transport's own library. `own[k]`: what ranks[k] brings (all_gather),
  /// ends with (reduce_scatter), or its share of the vector (all_reduce).
  virtual void group(GroupKind kind, const Ranks& ranks, const PieceLists& own) = 0;
};

/// An all-gather among `ranks`: ranks[k] brings the pieces own[k], and everyone ends with all of them.
using AllGather = std::function<void(PlanWriter&, const Ranks& ranks, const PieceLists& own)>;

}  // namespace lanecast
