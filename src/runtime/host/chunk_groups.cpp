// SPDX-License-Identifier: Apache-2.0
// Steps of a chunk that a whole group takes together, by a library's own collective.
#include "runtime/bound/group_step.h"
#include "runtime/host/chunk_run.h"
#include "runtime/host/library_averages.h"

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
  StepGroup& call = groups_[index];
  const GroupStep bound = group_step({plan_, context_.shape, context_.layout, bound_, chunk_}, step, call.elements);
  if (bound.is_empty()) return finish(step);
  static_cast<GroupCall&>(call) = bound.call;
  if (reduces(call.kind)) call.add = average_adder(call.dtype, bound.reduction.overrange);
  call.run = this;
  call.group = context_.prepared.handles[index];
  if (bound.dst_apart() || (call.kind == Kind::reduce_scatter && bound.overlaps())) {
    call.staged_out = context_.memory.staging.take(bound.dst_bytes);
    call.out = call.staged_out.data.get();
  }
  if (bound.src_apart()) {
    call.staged_in = context_.memory.staging.take(bound.src_bytes);
    SpanCursor(bound.src).gather(call.staged_in.data.get(), bound.src_bytes);
    call.in = call.staged_in.data.get();
  }
  call.posted_ns = begin_ns();
  Transport& transport = *context_.router.library_for(call.kind, call.dtype, call.op);
  const Router::Visit visit(context_.router, transport);
  transport.groups()->post(call);
}

void ChunkRun::arrived(StepGroup& call) {
  record_message(call.step, bound_.src_bytes(call.step) + bound_.dst_bytes(call.step), call.posted_ns);
  const Step& step = plan_.steps[call.step];
  const auto dst = bound_.dst(call.step);
  if (call.staged_out.data) SpanCursor(dst).scatter(call.staged_out.data.get(), bound_.dst_bytes(call.step));
  context_.memory.staging.give_back(std::move(call.staged_in));
  context_.memory.staging.give_back(std::move(call.staged_out));
  if (const Reduction divide = reduction(step); divide.divisor != 1) {
    sources_.cursors.assign(1, SpanCursor(dst));
    reduce_spans(divide, SpanCursor(dst), sources_, bound_.dst_bytes(call.step), Stores::ordinary);
  }
  finish(call.step);
}

}  // namespace lanecast
