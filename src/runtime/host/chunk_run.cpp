// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/chunk_run.h"

#include <algorithm>

#include "runtime/bound/step_reduction.h"

namespace lanecast {
namespace {

// Messages over wires are not to wait for a copy: some ten microseconds away from the transports. Among ranks of one
// host, and where a message waits for the copy itself, as much as a transport reads before it returns.
constexpr std::size_t kSliceBytes = std::size_t{128} << 10;
constexpr std::size_t kLongSliceBytes = std::size_t{1} << 20;

constexpr std::size_t kLeastBytesToChoose = 16 << 10;  // below, one kind of stores is as good as the other

}  // namespace

ChunkRun::ChunkRun(const CallContext& context)
    : context_(context),
      plan_(context.prepared.plan),
      state_(plan_.steps.size()),
      messages_(plan_.steps.size()),
      groups_(plan_.groups.size()),
      idle_slice_bytes_(context.router.any(&Traits::shares_wires) ? kSliceBytes : kLongSliceBytes),
      sends_first_(context.router.any(&Traits::announces)) {}

void ChunkRun::begin(Chunk chunk, const Memory& memory) {
  chunk_ = chunk;
  if (bound_chunk_ != chunk.index) bound_.bind(plan_, context_.layout, chunk);
  bound_chunk_ = chunk.index;
  bound_.locate({memory.in, memory.out, memory.scratch});
  waits_ = context_.prepared.successors.waits();
  std::fill(state_.begin(), state_.end(), State::waiting);
  if (context_.prepared.exchanges) posted_.assign(plan_.steps.size(), false);
  next_ahead_ = 0;
  ahead_bytes_ = 0;
  first_unfinished_ = 0;
  unfinished_ = static_cast<std::uint32_t>(plan_.steps.size());
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i)
    if (waits_[i] == 0) make_ready(i);
}

void ChunkRun::start_ready() {
  while (may_start(ready_sends_) || may_start(ready_)) {
    Ready& first = may_start(ready_sends_) ? ready_sends_ : ready_;
    const std::uint32_t step = first.top();
    first.pop();
    if (is_early(step))
      state_[step] = State::held;
    else
      start(step);
  }
  receive_ahead();
}

void ChunkRun::start(std::uint32_t step) {
  state_[step] = State::started;
  const std::int64_t begin = begin_ns();
  switch (plan_.steps[step].kind) {
    case StepKind::send:
      return send(step);
    case StepKind::recv:
    case StepKind::recv_reduce:
      return receive(step);
    case StepKind::copy: {
      const std::size_t bytes = bound_.dst_bytes(step);
      const bool awaited = !context_.prepared.successors.of(step).empty();
      copies_.push_back({step, SpanCursor(bound_.src(step)), SpanCursor(bound_.dst(step)), bytes,
                         awaited ? Stores::ordinary : stores_for(bytes), awaited, stores_for_reader(step)});
      return;
    }
    case StepKind::reduce: {
      const std::size_t bytes = bound_.dst_bytes(step);
      sources_.cursors.assign(plan_.steps[step].sources, SpanCursor(bound_.src(step)));
      for (std::size_t k = 0; k < sources_.cursors.size(); ++k) sources_.cursors[k].skip(k * bytes);
      write_by(stores_for_reader(step), Stores::ordinary, bytes, [&](Stores stores) {
        reduce_spans(reduction(plan_.steps[step]), SpanCursor(bound_.dst(step)), sources_, bytes, stores);
      });
      record_work(step, StepKind::reduce, bytes, begin);
      return finish(step);
    }
    case StepKind::group:
      return call_group(step);
  }
}

// Where two ranks send to each other on one connection, an answer stands behind all that the receiver is sending by
// then: the peer is to hear of our message before it has our answer, lest the two messages go one after the other.
void ChunkRun::make_ready(std::uint32_t step) {
  (sends_first_ && plan_.steps[step].kind == StepKind::send ? ready_sends_ : ready_).push(step);
}

bool ChunkRun::copy_some(bool moved) {
  if (copies_.empty()) return false;
  Copy& copy = copies_.back();
  // Where nobody waits for it messages go first: a peer may be waiting for them.
  if (moved && !copy.awaited) return false;
  const std::int64_t begin = begin_ns();
  const std::size_t slice = std::min(copy.awaited ? kLongSliceBytes : idle_slice_bytes_, copy.left_bytes);
  write_by(copy.choice, copy.stores, slice, [&](Stores stores) {
    for (std::size_t left = slice; left > 0;) {
      const Span from = copy.src.take(left);
      copy.dst.scatter(from.data, from.bytes, stores);
      left -= from.bytes;
    }
  });
  copy.left_bytes -= slice;
  record_work(copy.step, StepKind::copy, slice, begin);
  if (copy.left_bytes == 0) {
    wait_for_stores(copy.stores);
    const std::uint32_t step = copy.step;
    copies_.pop_back();
    finish(step);
    start_ready();
  }
  return true;
}

void ChunkRun::finish(std::uint32_t step) {
  state_[step] = State::finished;
  --unfinished_;
  while (first_unfinished_ < state_.size() && state_[first_unfinished_] == State::finished) ++first_unfinished_;
  for (std::uint32_t next : context_.prepared.successors.of(step))
    if (--waits_[next] == 0) make_ready(next);
  if (!takes_turns(step)) return;
  if (ChunkRun* const next = context_.sends.pass(step)) next->take_turn_to_send(step);
}

Reduction ChunkRun::reduction(const Step& step) const { return reduction_of(plan_, step, context_.shape); }

Transport& ChunkRun::transport_to(int peer) const {
  const std::vector<int>& named = context_.prepared.transports;
  return named.empty() ? context_.router.to(peer) : context_.router[named[peer]];
}

Transport& ChunkRun::address(StepMessage& message, std::uint32_t step) {
  message.run = this;
  message.step = step;
  message.peer = plan_.steps[step].peer;
  message.stamp = context_.stamp;
  message.kind = plan_.collective.kind;
  Transport& transport = transport_to(message.peer);
  const std::uint64_t ordinal = std::uint64_t{plan_.steps[step].ordinal} * chunk_.count + chunk_.index;
  message.tag = call_tag(transport, ordinal, message.stamp);
  message.posted_ns = begin_ns();
  return transport;
}

StoreChoice* ChunkRun::stores_for_reader(std::uint32_t step) const {
  const std::size_t bytes = bound_.dst_bytes(step);
  if (bytes < kLeastBytesToChoose) return nullptr;
  const auto successors = context_.prepared.successors.of(step);
  const auto send =
      std::ranges::find_if(successors, [&](std::uint32_t next) { return plan_.steps[next].kind == StepKind::send; });
  if (send == successors.end()) return nullptr;
  const bool sums = plan_.steps[step].kind != StepKind::copy;
  const int peer = plan_.steps[*send].peer;
  if (!transport_to(peer).may_be_read(peer, bytes, sums)) return nullptr;
  return &(sums ? context_.memory.sums : context_.memory.copies)[peer];
}

bool ChunkRun::takes_turns(std::uint32_t step) const {
  const Step& is = plan_.steps[step];
  return is.kind == StepKind::send && chunk_.count > 1 && transport_to(is.peer).traits().shares_wires;
}

bool ChunkRun::is_early(std::uint32_t step) const {
  if (!context_.prepared.exchanges || plan_.steps[step].kind == StepKind::send || is_ahead(step)) return false;
  const std::uint32_t send = context_.prepared.exchanges->other(step);
  return send != Exchanges::kNone && !posted_[send] && send < first_unfinished_ + context_.window &&
         transport_to(plan_.steps[step].peer).traits().announces;
}

void ChunkRun::let_go_of_receive(std::uint32_t send) {
  if (!context_.prepared.exchanges) return;
  posted_[send] = true;
  const std::uint32_t receive = context_.prepared.exchanges->other(send);
  if (receive == Exchanges::kNone || state_[receive] != State::held) return;
  state_[receive] = State::waiting;
  ready_.push(receive);
}

void ChunkRun::send(std::uint32_t step) {
  if (takes_turns(step) && !context_.sends.is_turn(step, chunk_.index))
    return context_.sends.wait(step, chunk_.index, this);
  post_send(step);
}

void ChunkRun::take_turn_to_send(std::uint32_t step) {
  post_send(step);
  start_ready();  // an empty message is done at once
}

void ChunkRun::post_send(std::uint32_t step) {
  StepMessage& message = messages_[step];
  const auto memory = bound_.src(step);
  message.bytes = bound_.src_bytes(step);
  message.passed_on = std::ranges::any_of(plan_.src(plan_.steps[step]), [](const Block& b) { return b.space != kIn; });
  if (message.bytes == 0) {  // the receiver knows it as well
    let_go_of_receive(step);
    return finish(step);
  }
  Transport& transport = address(message, step);
  message.memory = memory;
  if (memory.size() > 1 && !transport.traits().scatters) {
    message.staged = context_.memory.staging.take(message.bytes);
    message.staged_span = {message.staged.data.get(), message.bytes};
    const std::int64_t begin = begin_ns();
    StoreChoice* const choice = message.bytes < kLeastBytesToChoose ? nullptr : &context_.memory.copies[message.peer];
    write_by(choice, Stores::ordinary, message.bytes,
             [&](Stores stores) { SpanCursor(memory).gather(message.staged_span.data, message.bytes, stores); });
    record_work(step, StepKind::copy, message.bytes, begin);
    message.memory = {&message.staged_span, 1};
  }
  const Router::Visit visit(context_.router, transport, message.peer);
  transport.post_send(message);
  let_go_of_receive(step);
}

std::vector<std::uint32_t> ChunkRun::waiting() const {
  std::vector<std::uint32_t> steps;
  for (std::uint32_t i = 0; i < state_.size(); ++i)
    if (state_[i] == State::started || state_[i] == State::held) steps.push_back(i);
  return steps;
}

}  // namespace lanecast
