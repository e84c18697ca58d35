// SPDX-License-Identifier: Apache-2.0
// What a chunk receives: posted when its turn comes, or before, and unpacked or added where the transport does neither.
#include <algorithm>
#include <utility>

#include "runtime/host/chunk_run.h"

namespace lanecast {
namespace {

constexpr std::size_t kAheadBytes = std::size_t{16} << 20;  // of staging for each chunk; one message may be larger

}  // namespace

// Several contributions to one sum are added in the plan's order, but where the transport does not add they can come at
// the same time: else each would wait for the one before it, latency and all.
void ChunkRun::receive_ahead() {
  const std::uint32_t end = std::min(first_unfinished_ + context_.window, static_cast<std::uint32_t>(state_.size()));
  bool all_seen_to = true;  // so far; what is early is looked at again
  for (std::uint32_t i = next_ahead_; i < end; ++i) {
    const Step& step = plan_.steps[i];
    const bool waits = step.kind == StepKind::recv_reduce && state_[i] == State::waiting && !is_ahead(i);
    const std::size_t bytes = waits ? bound_.dst_bytes(i) : 0;
    if (bytes > 0 && is_early(i)) {
      all_seen_to = false;
    } else if (bytes > 0 && !transport_to(step.peer).traits().consumes) {
      if (ahead_bytes_ > 0 && ahead_bytes_ + bytes > kAheadBytes) return;
      ahead_bytes_ += bytes;
      post_receive(i);
    }
    if (all_seen_to) next_ahead_ = i + 1;
  }
}

void ChunkRun::receive(std::uint32_t step) {
  StepMessage& message = messages_[step];
  if (bound_.dst_bytes(step) == 0) return finish(step);
  if (!message.staged.data) return post_receive(step);
  ahead_bytes_ -= message.bytes;
  if (std::exchange(message.here, false)) {
    unstage(message);
    finish(step);
  }
}

void ChunkRun::post_receive(std::uint32_t step) {
  StepMessage& message = messages_[step];
  const auto memory = bound_.dst(step);
  message.bytes = bound_.dst_bytes(step);
  Transport& transport = address(message, step);
  message.memory = memory;
  message.consumer = nullptr;
  const bool reduces = plan_.steps[step].kind == StepKind::recv_reduce;
  if (reduces)
    message.reduction = {reduction(plan_.steps[step]), SpanCursor(bound_.src(step)), SpanCursor(memory),
                         stores_for_reader(step)};
  if (reduces && transport.traits().consumes) {
    message.consumer = &message.reduction;
  } else if (reduces || (memory.size() > 1 && !transport.traits().scatters)) {
    message.staged = context_.memory.staging.take(message.bytes);
    message.staged_span = {message.staged.data.get(), message.bytes};
    message.memory = {&message.staged_span, 1};
  }
  const Router::Visit visit(context_.router, transport, message.peer);
  transport.post_recv(message);
}

void ChunkRun::arrived(StepMessage& message) {
  record_message(message.step, message.bytes, message.posted_ns);
  if (is_ahead(message.step)) {
    message.here = true;
    return;
  }
  if (message.staged.data) unstage(message);
  finish(message.step);
  start_ready();
}

void ChunkRun::unstage(StepMessage& message) {
  const std::int64_t begin = begin_ns();
  const StepKind kind = plan_.steps[message.step].kind;
  if (kind == StepKind::recv_reduce) {
    message.reduction.consume(0, message.staged_span.data, message.bytes);
    record_work(message.step, StepKind::reduce, message.bytes, begin);
  } else if (kind == StepKind::recv) {
    SpanCursor(bound_.dst(message.step)).scatter(message.staged_span.data, message.bytes);
    record_work(message.step, StepKind::copy, message.bytes, begin);
  }
  context_.memory.staging.give_back(std::move(message.staged));
}

}  // namespace lanecast
