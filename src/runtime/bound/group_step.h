// SPDX-License-Identifier: Apache-2.0
// A plan's group step, bound to a chunk: the collective that a transport or the peers of a host are asked for.
#pragma once

#include <vector>

#include "runtime/bound/layout.h"
#include "runtime/bound/span_ops.h"
#include "transport/groups.h"

namespace lanecast {

/// A chunk of a call whose steps are bound.
struct BoundChunk {
  const Plan& plan;
  const Shape& shape;
  const Layout& layout;
  const BoundSteps& steps;
  Chunk chunk;
};

struct GroupStep {
  const Group& group;
  GroupCall call;  // all but the group's handle; its buffers begin where the step's first blocks do
  Reduction reduction;
  std::span<const Span> src, dst;
  std::size_t src_bytes = 0, dst_bytes = 0;

  /// Members skip a call only where all of them see that it moves nothing.
  bool is_empty() const;
  /// A library wants one buffer on each side; blocks that lie apart are packed for it, which is the papers' shuffle.
  bool src_apart() const { return src.size() > 1; }
  bool dst_apart() const { return dst.size() > 1; }
  bool overlaps() const { return lanecast::overlaps(src, dst); }
};

/// counts: keeps what the call refers to.
GroupStep group_step(const BoundChunk& bound, std::uint32_t step, std::vector<std::size_t>& counts);

}  // namespace lanecast
