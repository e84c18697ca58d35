// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/group_step.h"

#include <algorithm>

#include "runtime/bound/step_reduction.h"

namespace lanecast {
namespace {

std::byte* start_of(std::span<const Span> spans) { return spans.empty() ? nullptr : spans[0].data; }

}  // namespace

bool GroupStep::is_empty() const {
  return !call.own_counts && std::ranges::all_of(call.counts, [](std::size_t count) { return count == 0; });
}

GroupStep group_step(const BoundChunk& bound, std::uint32_t step, std::vector<std::size_t>& counts) {
  const Step& what = bound.plan.steps[step];
  const Group& group = bound.plan.groups[what.group];
  counts.clear();
  for (const Pieces& own : group.own) {
    counts.push_back(0);
    for (const Piece& piece : own) counts.back() += bound.layout.elements(piece, bound.chunk);
  }
  GroupStep found{.group = group,
                  .call = {},
                  .reduction = reduction_of(bound.plan, what, bound.shape),
                  .src = bound.steps.src(step),
                  .dst = bound.steps.dst(step),
                  .src_bytes = bound.steps.src_bytes(step),
                  .dst_bytes = bound.steps.dst_bytes(step)};
  found.call.kind = group.kind;
  found.call.dtype = found.reduction.dtype;
  found.call.op = found.reduction.op;
  found.call.in = start_of(found.src);
  found.call.out = start_of(found.dst);
  found.call.counts = counts;
  found.call.root = group.root;
  // Of an all-to-all within a group a member knows its own messages only, whatever the ranks know of the whole call.
  found.call.own_counts = bound.shape.own_counts() || group.kind == Kind::all_to_all;
  return found;
}

}  // namespace lanecast
