// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/in_host_call.h"

#include <utility>

#include "base/error.h"
#include "base/mix.h"
#include "base/overrange.h"
#include "runtime/gpu/peer_call.h"

namespace lanecast {
namespace {

constexpr Chunk kWhole{0, 1};

/// Which of a rank's buffers the others read or write, where they work in its memory.
struct Reached {
  bool in = false, out = false;
};

Reached reached_by_peers(Kind kind) {
  switch (kind) {
    case Kind::all_gather:
    case Kind::all_to_all:
      return {.out = true};
    case Kind::reduce_scatter:
      return {.in = true};
    case Kind::all_reduce:
      return {.in = true, .out = true};
    default:
      return {};
  }
}

peers::WindowBuffers offered(Kind kind, const InHostBuffers& buffers) {
  peers::WindowBuffers windows = buffers.windows;
  windows.in = reinterpret_cast<gpu::Address>(buffers.in);
  windows.out = reinterpret_cast<gpu::Address>(buffers.out);
  const Reached reached = reached_by_peers(kind);
  if (!reached.in) windows.in_place = 0;
  if (!reached.out) windows.out_place = 0;
  return windows;
}

}  // namespace

bool direct_takes(Kind kind, bool own_counts, const InHostBuffers& buffers) {
  const Reached reached = reached_by_peers(kind);
  if (!reached.in && (!reached.out || own_counts)) return false;
  return (!reached.in || buffers.symmetric_in) && (!reached.out || buffers.symmetric_out);
}

bool can_offer(Kind kind, const InHostBuffers& buffers) {
  const Reached reached = reached_by_peers(kind);
  if (kind == Kind::all_to_all || (!reached.in && !reached.out)) return false;
  return (!reached.in || buffers.windows.in_place) && (!reached.out || buffers.windows.out_place);
}

InHostCall::InHostCall(Plan plan, Shape shape, PeerEngine engine)
    : plan_(std::move(plan)),
      shape_(std::move(shape)),
      engine_(engine),
      layout_(plan_, shape_),
      signature_(signature_of(plan_, shape_)) {
  bound_.bind(plan_, layout_, kWhole);
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const StepKind kind = plan_.steps[i].kind;
    const bool apart = bound_.src(i).size() > 1 || bound_.dst(i).size() > 1;
    if ((kind != StepKind::group && kind != StepKind::copy) || apart)
      throw UsageError("algorithm '" + plan_.algorithm + "': not on GPUs, because of " + describe(plan_, i));
  }
}

std::uint16_t InHostCall::signature(const InHostBuffers& buffers) const {
  const std::uint64_t places = engine_ == PeerEngine::direct ? places_of(buffers) : 0;
  return folded(mix(signature_.hash + static_cast<std::uint64_t>(engine_), places));
}

std::uint64_t InHostCall::places_of(const InHostBuffers& buffers) const {
  const auto place = [](bool counts, const void* at, const peers::SharedMemory* memory) {
    if (!counts || !memory) return std::uint64_t{0};
    return mix(memory->ordinal(), reinterpret_cast<gpu::Address>(at) - memory->own());
  };
  const bool reads = plan_.collective.reduces(), writes = plan_.collective.kind != Kind::reduce_scatter;
  return mix(place(reads, buffers.in, buffers.symmetric_in), place(writes, buffers.out, buffers.symmetric_out));
}

void InHostCall::enqueue(const InHostBuffers& buffers, peers::PeerGroup& peers, gpu::Stream stream) {
  // Spans serve reading and writing; no plan writes its input, which verify() proves.
  bound_.locate(
      {static_cast<std::byte*>(const_cast<void*>(buffers.in)), static_cast<std::byte*>(buffers.out), nullptr});
  for (std::uint32_t i = 0; i < plan_.steps.size(); ++i)
    if (plan_.steps[i].kind == StepKind::group)
      call_group(i, buffers, peers, stream);
    else if (bound_.dst_bytes(i) != 0 && !goes_with_group(i))
      peers.copy(bound_.dst(i)[0].data, bound_.src(i)[0].data, bound_.dst_bytes(i), stream);
}

bool InHostCall::goes_with_group(std::uint32_t copy) const {
  return plan_.collective.kind == Kind::broadcast && copy > 0 && copy < plan_.steps.size() &&
         plan_.steps[copy - 1].kind == StepKind::group;
}

void InHostCall::call_group(std::uint32_t step, const InHostBuffers& buffers, peers::PeerGroup& peers,
                            gpu::Stream stream) const {
  std::vector<std::size_t> counts;
  GroupStep bound = group_step({plan_, shape_, layout_, bound_, kWhole}, step, counts);
  if (goes_with_group(step + 1) && bound.src_bytes != 0) bound.call.out = bound_.dst(step + 1)[0].data;
  peers::PeerCall call = peer_call(bound, peers, signature(buffers));
  // A group of all ranks adds what they bring at once. In two shots any rank does that, and not only who gets the sum.
  if (call.overrange != 0) call.overrange = kAddedAtOnce;
  if (call.op == ReduceOp::avg) call.divisor = peers.size();
  call.windows = offered(bound.call.kind, buffers);
  switch (engine_) {
    case PeerEngine::kernel:
      return peers.by_kernel(call, stream);
    case PeerEngine::two_shot:
      return peers.by_two_shot(call, stream);
    case PeerEngine::chain:
      return peers.by_chain(call, stream);
    case PeerEngine::copy_engine:
      return peers.by_copy_engine(call, stream);
    case PeerEngine::nccl:
      throw InternalError("a call by NCCL came to our kernels");
    case PeerEngine::direct:
      return peers.by_direct(call, buffers.symmetric_in,
                             bound.call.kind == Kind::reduce_scatter ? nullptr : buffers.symmetric_out, stream);
  }
}

}  // namespace lanecast
