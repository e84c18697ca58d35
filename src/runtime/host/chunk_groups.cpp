// SPDX-License-Identifier: Apache-2.0
// Steps of a chunk that a whole group takes together, by a library's own collective.
#include <algorithm>

#include "runtime/bound/group_step.h"
#include "runtime/host/chunk_run.h"
#include "runtime/host/native_averages.h"

namespace lanecast {

void ChunkRun::call_group(std::uint32_t step) {
  const std::int32_t group = plan_.steps[step].group;
  groups_[group].step = step;
  if (!context_.groups.is_turn(group, chunk_.index)) return context_.groups.wait(group, chunk_.index, this);
  post_group(step);
  if (ChunkRun* const next = context_.groups.pass(group)) next->take_turn(group);
}

void ChunkRun::take_turn(std::int32_t group) {
  call_group(groups_[group].step);
  start_ready();  // an empty call is done at once
}

void ChunkRun::post_group(std::uint32_t step) {
  const int index = plan_.steps[step].group;
  const Group& group = plan_.groups[index];
  StepGroup& call = groups_[index];
  static_cast<GroupCall&>(call) = group_call(group, context_.shape, context_.layout, chunk_, call.elements);
  if (reduces(group.kind)) call.add = average_adder(call.dtype, reduction(plan_.steps[step]).overrange);
  call.run = this;
  call.group = context_.prepared.handles[index];
  const auto src = bound_.src(step), dst = bound_.dst(step);
  const std::size_t in_bytes = bound_.src_bytes(step), out_bytes = bound_.dst_bytes(step);
  // Members skip a call only where all of them see that it moves nothing.
  const auto is_zero = [](std::size_t count) { return count == 0; };
  if (!call.own_counts && std::ranges::all_of(call.elements, is_zero)) return finish(step);

  // A library wants one buffer on each side; where blocks lie apart they are packed, which is the papers' shuffle.
  const bool apart = group.kind == Kind::reduce_scatter && overlaps(src, dst);
  if (dst.size() > 1 || apart) {
    call.staged_out = context_.staging.take(out_bytes);
    call.out = call.staged_out.data.get();
  } else {
    call.out = dst.empty() ? nullptr : dst[0].data;
  }
  if (src.size() > 1) {
    call.staged_in = context_.staging.take(in_bytes);
    SpanCursor(src).gather(call.staged_in.data.get(), in_bytes);
    call.in = call.staged_in.data.get();
  } else {
    call.in = src.empty() ? nullptr : src[0].data;
  }
  call.posted_ns = begin_ns();
  Transport& transport = *context_.router.native(call.kind, call.dtype, call.op);
  const Router::Visit visit(context_.router, transport);
  transport.post_group(call);
}

void ChunkRun::arrived(StepGroup& call) {
  record_message(call.step, bound_.src_bytes(call.step) + bound_.dst_bytes(call.step), call.posted_ns);
  const Step& step = plan_.steps[call.step];
  const auto dst = bound_.dst(call.step);
  if (call.staged_out.data) SpanCursor(dst).scatter(call.staged_out.data.get(), bound_.dst_bytes(call.step));
  context_.staging.give_back(std::move(call.staged_in));
  context_.staging.give_back(std::move(call.staged_out));
  if (const Reduction divide = reduction(step); divide.divisor != 1) {
    sources_.cursors.assign(1, SpanCursor(dst));
    reduce_spans(divide, SpanCursor(dst), sources_, bound_.dst_bytes(call.step));
  }
  finish(call.step);
}

}  // namespace lanecast
