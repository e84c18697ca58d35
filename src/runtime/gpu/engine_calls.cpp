// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/engine_calls.h"

#include <utility>

#include "algorithms/registry.h"
#include "plan/verify.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {

EngineCalls::EngineCalls(const EngineSurroundings& around) : on_(around), lines_(gpu_kind(around.gpu.kind)) {}

void EngineCalls::choose_by(const std::vector<PeerFits>& measured) {
  lines_ = PeerLines::among(measured, on_.gpu.kind, on_.topology.size());
}

PeerTraffic EngineCalls::traffic_of(const Call& call, bool symmetric) const {
  const std::size_t bytes = full_bytes(call, on_.topology.size());
  return {call.kind, on_.topology.size(),         bytes,
          symmetric, on_.peers.cuts().few_ctas(), on_.peers.pumps(call.dtype, call.op, bytes)};
}

PeerEngine EngineCalls::engine_for(const Call& call, const InHostBuffers& buffers,
                                   std::optional<PeerEngine> pinned) const {
  const PeerTraffic traffic = traffic_of(call, direct_takes(call.kind, call.own_counts(), buffers));
  // Of a size that not all know the kernel is taken.
  if (!pinned) return call.own_counts() ? PeerEngine::kernel : fastest(traffic, lines_, on_.peers.has_staging());
  if (!takes(*pinned, traffic))
    throw UsageError("rank " + std::to_string(on_.peers.rank()) + ": algorithm '" + std::string(name_of(*pinned)) +
                     "' takes " +
                     (*pinned == PeerEngine::two_shot
                          ? "an all_reduce or a broadcast, which this is not"
                          : "tensors from symmetric_empty(), in an all_gather, reduce_scatter, all_reduce or even "
                            "all_to_all, since it reads and writes at the peers"));
  return *pinned;
}

Explanation EngineCalls::explain(const Call& call, bool symmetric, std::string_view pinned) const {
  return lanecast::explain(traffic_of(call, symmetric), lines_, pinned, on_.peers.has_staging());
}

bool EngineCalls::offers(const Call& call, const InHostBuffers& buffers, PeerEngine engine) const {
  return (engine == PeerEngine::kernel || engine == PeerEngine::two_shot) && can_offer(call.kind, buffers) &&
         worth_an_offer(traffic_of(call, /*symmetric=*/false), lines_.gpu());
}

InHostCall& EngineCalls::bound(const Call& call, bool in_place, PeerEngine engine) {
  const int size = on_.topology.size();
  const Collective collective = collective_of(call, size, in_place);
  Call whole = call;
  whole.chunks = 1;  // kernels and copy engines cut messages by themselves
  if (InHostCall* const found = bound_.find(collective, whole, name_of(engine))) return *found;
  std::vector<Plan> plans;
  plans.reserve(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) plans.push_back(make_plan(collective, r, on_.topology, kPeers));
  verify(plans);
  Plan& own = plans[on_.peers.rank()];
  own.algorithm = name_of(engine);
  return bound_.make(collective, whole, name_of(engine), std::move(own), shape_of(whole), engine);
}

void EngineCalls::enqueue(const Call& call, bool in_place, std::optional<PeerEngine> pinned, gpu::Stream stream) {
  const gpu::Device::Current current(*on_.gpu.device);
  OrderOfCalls& order = on_.enqueued.order;
  const bool captured = order.capturing(stream);
  if (!captured) on_.buffers.look();
  InHostBuffers buffers = on_.buffers.of(call);
  const PeerEngine engine = engine_for(call, buffers, pinned);
  if (!pinned && offers(call, buffers, engine)) buffers.windows.table = on_.buffers.table();
  InHostCall& what = bound(call, in_place, engine);
  on_.enqueued.known.add(what.signature(buffers), what.text());
  order.in_turn(stream, captured, [&] { what.enqueue(buffers, on_.peers, stream); });
}

}  // namespace lanecast
