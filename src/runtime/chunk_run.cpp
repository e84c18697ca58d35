// SPDX-License-Identifier: Apache-2.0
#include "runtime/chunk_run.h"

#include <algorithm>
#include <cstring>

namespace lanecast {
namespace {

constexpr std::size_t kSliceBytes = std::size_t{128} << 10;  // some ten microseconds away from the transports

void copy_spans(std::span<const Span> dst, std::span<const Span> src) {
  SpanCursor to(dst);
  for (const Span& from : src) to.scatter(from.data, from.bytes);
}

}  // namespace

ChunkRun::ChunkRun(const CallContext& context)
    : context_(context),
      plan_(context.prepared.plan),
      state_(plan_.steps.size()),
      messages_(plan_.steps.size()),
      groups_(plan_.groups.size()) {}

void ChunkRun::begin(Chunk chunk, const Memory& memory) {
  chunk_ = chunk;
  if (bound_chunk_ != chunk.index) bound_.bind(plan_, context_.layout, chunk);
  bound_chunk_ = chunk.index;
  bound_.locate({memory.in, memory.out, memory.scratch});
  waits_ = context_.prepared.waits;
  std::fill(state_.begin(), state_.end(), State::waiting);
  first_unfinished_ = 0;
  unfinished_ = static_cast<std::uint32_t>(plan_.steps.size());
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i)
    if (waits_[i] == 0) ready_.push(i);
}

void ChunkRun::start_ready() {
  while (!ready_.empty() && ready_.top() < first_unfinished_ + context_.window) {
    const std::uint32_t step = ready_.top();
    ready_.pop();
    start(step);
  }
}

void ChunkRun::start(std::uint32_t step) {
  state_[step] = State::started;
  switch (plan_.steps[step].kind) {
    case StepKind::send:
      return send(step);
    case StepKind::recv:
    case StepKind::recv_reduce:
      return receive(step);
    case StepKind::copy:
      // Nobody waits for it, so messages go first: a peer may be waiting for them.
      if (context_.prepared.successors_of(step).empty()) {
        const std::size_t bytes = bound_.dst_bytes(step);
        late_copies_.push_back(
            {step, SpanCursor(bound_.src(step)), SpanCursor(bound_.dst(step)), bytes, stores_for(bytes)});
        return;
      }
      copy_spans(bound_.dst(step), bound_.src(step));
      return finish(step);
    case StepKind::reduce: {
      const std::size_t bytes = bound_.dst_bytes(step);
      sources_.cursors.assign(plan_.steps[step].sources, SpanCursor(bound_.src(step)));
      for (std::size_t k = 0; k < sources_.cursors.size(); ++k) sources_.cursors[k].skip(k * bytes);
      reduce_spans(reduction(plan_.steps[step]), SpanCursor(bound_.dst(step)), sources_, bytes);
      return finish(step);
    }
    case StepKind::group:
      return call_group(step);
  }
}

bool ChunkRun::copy_meanwhile() {
  if (late_copies_.empty()) return false;
  LateCopy& copy = late_copies_.back();
  for (std::size_t slice = std::min(kSliceBytes, copy.left_bytes); slice > 0;) {
    const Span from = copy.src.take(slice);
    copy.dst.scatter(from.data, from.bytes, copy.stores);
    copy.left_bytes -= from.bytes;
    slice -= from.bytes;
  }
  if (copy.left_bytes == 0) {
    wait_for_stores(copy.stores);
    const std::uint32_t step = copy.step;
    late_copies_.pop_back();
    finish(step);
  }
  return true;
}

void ChunkRun::finish(std::uint32_t step) {
  state_[step] = State::finished;
  --unfinished_;
  while (first_unfinished_ < state_.size() && state_[first_unfinished_] == State::finished) ++first_unfinished_;
  for (std::uint32_t next : context_.prepared.successors_of(step))
    if (--waits_[next] == 0) ready_.push(next);
}

Reduction ChunkRun::reduction(const Step& step) const {
  const bool divides = step.completes && context_.shape.op == ReduceOp::avg;
  return {context_.shape.dtype, context_.shape.op, divides ? static_cast<double>(plan_.collective.size) : 1.0};
}

Transport& ChunkRun::address(StepMessage& message, std::uint32_t step) {
  message.run = this;
  message.step = step;
  message.peer = plan_.steps[step].peer;
  message.stamp = context_.stamp;
  Transport& transport = context_.router.to(message.peer);
  const std::uint64_t ordinal = std::uint64_t{plan_.steps[step].ordinal} * chunk_.count + chunk_.index;
  const std::uint64_t salt = transport.compares_stamps() ? 0 : message.stamp;
  message.tag = (ordinal + salt) % first_message_tag(transport.max_tag());
  if (context_.router.log()) message.posted_ns = trace_clock_ns();
  return transport;
}

void ChunkRun::record(std::uint32_t step, std::size_t bytes, std::int64_t posted_ns) const {
  CallLog* const log = context_.router.log();
  if (!log) return;
  const Step& what = plan_.steps[step];
  const Transport* const transport =
      what.peer >= 0 ? &context_.router.to(what.peer)
                     : context_.router.native(plan_.groups[what.group].kind, context_.shape.dtype, context_.shape.op);
  log->add({.kind = what.kind,
            .peer = what.peer,
            .step = step,
            .chunk = chunk_.index,
            .bytes = bytes,
            .begin_ns = posted_ns,
            .end_ns = trace_clock_ns(),
            .transport = transport->name()});
}

void ChunkRun::send(std::uint32_t step) {
  StepMessage& message = messages_[step];
  const auto memory = bound_.src(step);
  message.bytes = bound_.src_bytes(step);
  if (message.bytes == 0) return finish(step);  // the receiver knows it as well
  Transport& transport = address(message, step);
  message.memory = memory;
  if (memory.size() > 1 && !transport.scatters()) {
    message.staged = context_.staging.take(message.bytes);
    message.staged_span = {message.staged.data.get(), message.bytes};
    SpanCursor(memory).gather(message.staged_span.data, message.bytes);
    message.memory = {&message.staged_span, 1};
  }
  transport.post_send(message);
}

void ChunkRun::receive(std::uint32_t step) {
  StepMessage& message = messages_[step];
  const auto memory = bound_.dst(step);
  message.bytes = bound_.dst_bytes(step);
  if (message.bytes == 0) return finish(step);
  Transport& transport = address(message, step);
  message.memory = memory;
  message.consumer = nullptr;
  const bool reduces = plan_.steps[step].kind == StepKind::recv_reduce;
  if (reduces) message.reduction = {reduction(plan_.steps[step]), SpanCursor(bound_.src(step)), SpanCursor(memory)};
  if (reduces && transport.consumes()) {
    message.consumer = &message.reduction;
  } else if (reduces || (memory.size() > 1 && !transport.scatters())) {
    message.staged = context_.staging.take(message.bytes);
    message.staged_span = {message.staged.data.get(), message.bytes};
    message.memory = {&message.staged_span, 1};
  }
  transport.post_recv(message);
}

void ChunkRun::arrived(StepMessage& message) {
  record(message.step, message.bytes, message.posted_ns);
  if (message.staged.data) {
    const Step& step = plan_.steps[message.step];
    if (step.kind == StepKind::recv_reduce)
      message.reduction.consume(0, message.staged_span.data, message.bytes);
    else if (step.kind == StepKind::recv)
      SpanCursor(bound_.dst(message.step)).scatter(message.staged_span.data, message.bytes);
    context_.staging.give_back(std::move(message.staged));
  }
  finish(message.step);
  start_ready();
}

bool ChunkRun::overlaps(std::span<const Span> a, std::span<const Span> b) const {
  for (const Span& x : a)
    for (const Span& y : b)
      if (x.data < y.data + y.bytes && y.data < x.data + x.bytes) return true;
  return false;
}

void ChunkRun::call_group(std::uint32_t step) {
  const std::int32_t group = plan_.steps[step].group;
  groups_[group].step = step;
  if (!context_.turns.is_turn(group, chunk_.index)) return context_.turns.wait(group, chunk_.index, this);
  post_group(step);
  if (ChunkRun* const next = context_.turns.pass(group)) next->take_turn(group);
}

void ChunkRun::take_turn(std::int32_t group) {
  call_group(groups_[group].step);
  start_ready();  // an empty call is done at once
}

void ChunkRun::post_group(std::uint32_t step) {
  const int index = plan_.steps[step].group;
  const Group& group = plan_.groups[index];
  StepGroup& call = groups_[index];
  call.run = this;
  call.group = context_.prepared.handles[index];
  call.kind = group.kind;
  call.dtype = context_.shape.dtype;
  call.op = context_.shape.op;
  call.elements.clear();
  for (const Pieces& own : group.own) {
    std::size_t count = 0;
    for (const Piece& piece : own) count += context_.layout.elements(piece, chunk_);
    call.elements.push_back(count);
  }
  call.counts = call.elements;
  call.root = group.root;
  call.own_counts = context_.shape.own_counts() || group.kind == GroupKind::all_to_all;
  const auto src = bound_.src(step), dst = bound_.dst(step);
  const std::size_t in_bytes = bound_.src_bytes(step), out_bytes = bound_.dst_bytes(step);
  // Members skip a call only where all of them see that it moves nothing.
  const auto is_zero = [](std::size_t count) { return count == 0; };
  if (!call.own_counts && std::ranges::all_of(call.elements, is_zero)) return finish(step);

  // A library wants one buffer on each side; where blocks lie apart they are packed, which is the papers' shuffle.
  const bool apart = group.kind == GroupKind::reduce_scatter && overlaps(src, dst);
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
  if (context_.router.log()) call.posted_ns = trace_clock_ns();
  context_.router.native(call.kind, call.dtype, call.op)->post_group(call);
}

void ChunkRun::arrived(StepGroup& call) {
  record(call.step, bound_.src_bytes(call.step) + bound_.dst_bytes(call.step), call.posted_ns);
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

std::vector<std::uint32_t> ChunkRun::waiting() const {
  std::vector<std::uint32_t> steps;
  for (std::uint32_t i = 0; i < state_.size(); ++i)
    if (state_[i] == State::started) steps.push_back(i);
  return steps;
}

}  // namespace lanecast
