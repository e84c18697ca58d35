// SPDX-License-Identifier: Apache-2.0
// A plan's group step as a transport is asked for it.
#pragma once

#include <vector>

#include "runtime/bound/layout.h"

namespace lanecast {

/// All but the buffers and the group's handle. counts: keeps what the call refers to.
inline GroupCall group_call(const Group& group, const Shape& shape, const Layout& layout, Chunk chunk,
                            std::vector<std::size_t>& counts) {
  counts.clear();
  for (const Pieces& own : group.own) {
    counts.push_back(0);
    for (const Piece& piece : own) counts.back() += layout.elements(piece, chunk);
  }
  GroupCall call;
  call.kind = group.kind;
  call.dtype = shape.dtype;
  call.op = shape.op;
  call.counts = counts;
  call.root = group.root;
  // Of an all-to-all within a group a member knows its own messages only, whatever the ranks know of the whole call.
  call.own_counts = shape.own_counts() || group.kind == Kind::all_to_all;
  return call;
}

}  // namespace lanecast
