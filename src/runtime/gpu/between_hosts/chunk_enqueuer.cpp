// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/chunk_enqueuer.h"

#include <utility>

#include "runtime/bound/group_step.h"
#include "runtime/bound/step_reduction.h"
#include "runtime/gpu/between_hosts/part_addresses.h"

namespace lanecast {
namespace {

std::byte* pointer(gpu::Address at) { return reinterpret_cast<std::byte*>(at); }

}  // namespace

void ChunkEnqueuer::enqueue(Chunk chunk, ChunkChannel& channel, std::byte* in, std::byte* out) {
  chunk_ = chunk;
  channel_ = &channel;
  bound_.bind(plan_.plan(), plan_.layout(), chunk);
  bound_.locate({in, out, pointer(channel.scratch())});
  plan_.messages(chunk, messages_);
  next_message_ = 0;
  say();
  await(-1);  // for the memory, from which the host may still be sending
  for (const std::uint32_t step : plan_.order()) enqueue(step);
  say();
  say_now();
}

void ChunkEnqueuer::enqueue(std::uint32_t i) {
  const Step& step = plan_.plan().steps[i];
  const auto src = bound_.src(i), dst = bound_.dst(i);
  const std::size_t bytes = bound_.dst_bytes(i);
  if (talks(step)) {
    if (next_message_ == messages_.size() || messages_[next_message_].step != i) return;  // it is empty
    const ChannelMessage& message = messages_[next_message_++];
    const Span staged{pointer(channel_->device_messages(message.on_device)) + message.offset, message.bytes};
    if (step.kind == StepKind::send) {
      copy({&staged, 1}, src, message.bytes);
      return say();
    }
    await(step.peer);
    if (step.kind == StepKind::recv) return copy(dst, {&staged, 1}, bytes);
    sources_.cursors = {SpanCursor(src), SpanCursor({&staged, 1})};
    return reduce(step, dst, bytes);
  }
  if (step.kind == StepKind::copy) return copy(dst, src, bytes);
  if (step.kind == StepKind::group) return call_group(i);
  sources_.cursors.assign(step.sources, SpanCursor(src));
  for (std::size_t k = 0; k < sources_.cursors.size(); ++k) sources_.cursors[k].skip(k * bytes);
  reduce(step, dst, bytes);
}

void ChunkEnqueuer::copy(std::span<const Span> to, std::span<const Span> from, std::size_t bytes) {
  const gpu::Device& device = tools_.launches.device();
  say_now();
  sources_.cursors.assign(1, SpanCursor(from));
  each_run(SpanCursor(to), sources_, bytes, [&](Span target) {
    device.check(device.driver().copy(gpu::address_of(target.data), gpu::address_of(sources_.addresses[0]),
                                      target.bytes, channel_->stream()),
                 "cuMemcpyAsync");
  });
}

void ChunkEnqueuer::reduce(const Step& step, std::span<const Span> to, std::size_t bytes) {
  const Reduction how = reduction_of(plan_.plan(), step, plan_.shape());
  say_now();
  each_run(SpanCursor(to), sources_, bytes, [&](Span target) {
    gpu::ReductionArguments r{};
    r.target[r.targets++] = gpu::address_of(target.data);
    for (const void* source : sources_.addresses) r.source[r.sources++] = gpu::address_of(source);
    r.bytes = target.bytes;
    r.op = static_cast<gpu::u32>(how.op);
    r.divisor = how.divisor;
    r.overrange = how.overrange;
    tools_.launches.reduce(how.dtype, r, peers::Launches::blocks_for(r.bytes, tools_.reducer_blocks),
                           channel_->stream());
  });
}

void ChunkEnqueuer::call_group(std::uint32_t i) {
  std::vector<std::size_t> counts;
  GroupStep bound = group_step({plan_.plan(), plan_.shape(), plan_.layout(), bound_, chunk_}, i, counts);
  if (bound.is_empty()) return;

  // What is packed lies behind the plan's own scratch memory; where each part lies together, nothing is.
  peers::PartAddresses places = part_addresses(bound);
  std::byte* const packed = pointer(channel_->scratch() + aligned(plan_.layout().scratch_bytes()));
  const Span in{packed, bound.src_bytes}, out{packed + aligned(bound.src_bytes), bound.dst_bytes};
  if (bound.src_apart() && places.in.empty()) {
    copy({&in, 1}, bound.src, in.bytes);
    bound.call.in = in.data;
  }
  const bool unpacks =
      (bound.dst_apart() && places.out.empty()) || (bound.overlaps() && !is_in_place(bound, plan_.plan().rank, places));
  if (unpacks) {
    places.out.clear();
    bound.call.out = out.data;
  }
  say_now();
  tools_.peers->call(plan_.plan().steps[i].group, bound, places, static_cast<std::uint16_t>(tools_.handshake.signature),
                     channel_->stream());
  if (unpacks) copy(bound.dst, {&out, 1}, out.bytes);
}

void ChunkEnqueuer::say() {
  ++channel_->enqueued.said;
  to_say_ = true;
}

void ChunkEnqueuer::say_now() {
  if (to_say_) shake_hands(-1, false);
}

void ChunkEnqueuer::await(int peer) {
  ++channel_->enqueued.go_on;
  shake_hands(peer, true);
}

void ChunkEnqueuer::shake_hands(int peer, bool waits) {
  gpu::Handshake h = tools_.handshake;
  h.peer = static_cast<gpu::u32>(peer);
  if (std::exchange(to_say_, false)) {
    h.said_at = channel_->said_at();
    h.said = channel_->enqueued.said;
  }
  if (waits) {
    h.awaited_at = channel_->go_on_at();
    h.awaited = channel_->enqueued.go_on;
  }
  tools_.launches.shake_hands(h, channel_->stream());
}

}  // namespace lanecast
