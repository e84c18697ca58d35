// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/engine_calls.h"

#include <utility>

#include "algorithms/registry.h"
#include "plan/verify.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {
namespace {

/// May what it adds be rounded to its type on the way? Sums of 8-bit floats leave the range of their type, or stand
/// still, where four are added that at once give a number.
bool may_be_chained(const Call& call, bool any_order) {
  const bool adds = call.op == ReduceOp::sum || call.op == ReduceOp::prod;
  const bool is_narrow = adds && is_float(call.dtype) && size_of(call.dtype) == 1;
  return any_order && call.op != ReduceOp::avg && !is_narrow;
}

}  // namespace

EngineCalls::EngineCalls(const EngineSurroundings& around)
    : on_(around), lines_(gpu_kind(around.gpu.kind)), trials_(around.gpu.device) {}

void EngineCalls::choose_by(const Models& models) {
  lines_ = PeerLines::among(models, on_.gpu.kind, on_.topology.size());
}

PeerTraffic EngineCalls::traffic_of(const Call& call, bool symmetric) const {
  const std::size_t bytes = full_bytes(call, on_.topology.size());
  return {.kind = call.kind,
          .ranks = on_.topology.size(),
          .bytes = bytes,
          .symmetric = symmetric,
          .few_ctas = on_.peers.cuts().few_ctas(),
          .pumped = on_.peers.pumps(call.dtype, call.op, bytes),
          .half = reduces(call.kind) && is_float(call.dtype) && size_of(call.dtype) == 2};
}

void EngineCalls::require(PeerEngine named, const PeerTraffic& traffic) const {
  if (takes(named, traffic)) return;
  throw UsageError("rank " + std::to_string(on_.peers.rank()) + ": algorithm '" + std::string(name_of(named)) +
                   "' takes " +
                   (named == PeerEngine::two_shot ? "an all_reduce, a reduce or a broadcast, which this is not"
                    : named == PeerEngine::chain
                        ? "a broadcast, or a reduce that is no average, no sum of 8-bit floats and need not add in "
                          "the order of the ranks, which this is not"
                        : "tensors from symmetric_empty(), in an all_gather, reduce_scatter, all_reduce or even "
                          "all_to_all, since it reads and writes at the peers"));
}

EngineCalls::Way EngineCalls::way_of(const Call& call, std::string_view named, const Allowed& allowed,
                                     gpu::Stream stream) {
  const bool captured = on_.enqueued.order.capturing(stream);
  if (!captured) on_.buffers.look();
  Way way;
  way.traffic = traffic_of(call, direct_takes(call.kind, call.own_counts(), on_.buffers.of(call)));
  way.traffic.chained = may_be_chained(call, allowed.any_order);
  way.traffic.captured = captured;
  way.traffic.nccl = allowed.no_nccl.empty();
  const std::optional<PeerEngine> engine = peer_engine_from(named);
  way.named = engine.has_value();
  if (engine) {
    require(*engine, way.traffic);
    way.engine = *engine;
    return way;
  }
  if (call.own_counts()) return way;  // of a size that not all know the kernel is taken
  const bool has_staging = on_.peers.has_staging();
  way.engine = fastest(way.traffic, lines_, has_staging);
  if (!way.traffic.nccl || !allowed.tries_nccl || lines_.knows_nccl(way.traffic, has_staging)) return way;
  const SizeClass size = size_class_of(way.traffic);
  PeerTraffic ours = way.traffic;
  ours.nccl = false;
  if (captured) {
    const auto seconds = trials_.settled(size);
    if (seconds && Trials::faster(*seconds) == Trials::Way::ours) way.engine = fastest(ours, lines_, has_staging);
    if (seconds && Trials::faster(*seconds) == Trials::Way::nccls) way.engine = PeerEngine::nccl;
    return way;
  }
  way.turn = trials_.next(size);
  way.engine = way.turn->way == Trials::Way::nccls ? PeerEngine::nccl : fastest(ours, lines_, has_staging);
  return way;
}

Explanation EngineCalls::explain(const Call& call, PeerQuestion question, const Allowed& allowed) const {
  const bool captured = question.traffic.captured;
  question.traffic = traffic_of(call, question.traffic.symmetric);
  question.traffic.chained = may_be_chained(call, allowed.any_order);
  question.traffic.captured = captured;
  question.traffic.nccl = allowed.no_nccl.empty();
  question.has_staging = on_.peers.has_staging();
  question.no_nccl = allowed.no_nccl;
  if (allowed.no_nccl.empty() && allowed.tries_nccl && !lines_.knows_nccl(question.traffic, question.has_staging)) {
    question.is_tried = true;
    question.tried = trials_.settled(size_class_of(question.traffic));
  }
  return lanecast::explain(question, lines_);
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

void EngineCalls::enqueue(const Call& call, bool in_place, const Way& way, gpu::Stream stream) {
  const gpu::Device::Current current(*on_.gpu.device);
  InHostBuffers buffers = on_.buffers.of(call);
  if (!way.named && offers(call, buffers, way.engine)) buffers.windows.table = on_.buffers.table();
  InHostCall& what = bound(call, in_place, way.engine);
  on_.enqueued.known.add(what.signature(buffers), what.text());
  on_.enqueued.order.in_turn(stream, way.traffic.captured, [&] { what.enqueue(buffers, on_.peers, stream); });
}

}  // namespace lanecast
