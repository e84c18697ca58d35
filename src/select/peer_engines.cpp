// SPDX-License-Identifier: Apache-2.0
#include "select/peer_engines.h"

#include <algorithm>

#include "plan/collective.h"
#include "select/peer_lines.h"

namespace lanecast {
namespace {

double at(const WayTime& way, double first_bytes, double bytes) {
  return way.alpha_s + bytes * way.beta_s_per_byte + std::min(bytes, first_bytes) * way.gamma_s_per_byte;
}

/// Reduces along a chain nobody has timed on any GPUs.
bool is_assumed(PeerEngine engine, const PeerTraffic& traffic) {
  return engine != PeerEngine::chain || traffic.kind != Kind::reduce;
}

/// Until somebody measures.
double assumed_s(const WayTimes& times, PeerEngine engine, const PeerTraffic& traffic) {
  const auto of = [&](const WayTime& way, double bytes) { return at(way, times.first_bytes, bytes); };
  const double to_all = static_cast<double>(traffic.message_bytes()) * (traffic.ranks - 1);
  const double share = to_all / traffic.ranks;  // of a vector that each rank reduces a part of
  switch (engine) {
    case PeerEngine::kernel:
      return of(times.kernel, to_all);
    case PeerEngine::two_shot:
      if (traffic.kind == Kind::broadcast) return of(times.spread, static_cast<double>(traffic.bytes));
      if (traffic.kind == Kind::reduce) return of(times.collected, static_cast<double>(traffic.bytes));
      return of(traffic.few_ctas ? times.two_shot_by_few
                : traffic.pumped ? times.two_shot_pumped
                                 : times.two_shot,
                2 * share);
    case PeerEngine::chain:  // of two ranks, the same messages as an exchange's
      if (traffic.ranks <= 2) return of(times.kernel, to_all);
      return of(times.chain, static_cast<double>(traffic.bytes)) + (traffic.ranks - 1) * times.chain_link_s;
    case PeerEngine::copy_engine:
      return of(times.copy_engine, to_all);
    default:
      break;
  }
  if (!reduces(traffic.kind))
    return of(traffic.kind == Kind::all_gather ? times.direct_copy : times.direct_messages, to_all);
  if (traffic.kind == Kind::reduce_scatter) return of(times.direct_reduction, to_all);
  return of(traffic.few_ctas ? times.direct_all_reduce_by_few : times.direct_reduction, 2 * share);
}

/// Beside our own kernels on plain memory, as on the machines where both were timed.
std::optional<double> assumed_of_nccl_s(const PeerTraffic& traffic, const GpuKind& gpu) {
  const NcclTime* const known = find_nccl_time(gpu, traffic.kind, traffic.ranks, traffic.half, traffic.bytes);
  if (known == nullptr) return {};
  double ours = assumed_s(gpu.times, PeerEngine::kernel, traffic);
  for (const PeerEngine other : {PeerEngine::two_shot, PeerEngine::chain})
    if (takes(other, traffic) && is_assumed(other, traffic))
      ours = std::min(ours, assumed_s(gpu.times, other, traffic));
  return ours * (traffic.captured ? known->replayed : known->eager) + (traffic.captured ? 0 : gpu.times.nccl_marks_s);
}

}  // namespace

std::string_view name_of(PeerEngine engine) { return kPeerEngines[static_cast<int>(engine)]; }

std::optional<PeerEngine> peer_engine_from(std::string_view name) {
  const auto* const found = std::ranges::find(kPeerEngines, name);
  if (found == kPeerEngines.end()) return {};
  return static_cast<PeerEngine>(found - kPeerEngines.begin());
}

std::size_t PeerTraffic::message_bytes() const {
  return Collective{kind, ranks}.parts() > 1 ? bytes / static_cast<std::size_t>(ranks) : bytes;
}

bool direct_has(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::reduce_scatter || kind == Kind::all_reduce ||
         kind == Kind::all_to_all;
}

bool takes(PeerEngine engine, const PeerTraffic& traffic) {
  if (engine == PeerEngine::nccl) return traffic.nccl;
  if (engine == PeerEngine::two_shot)
    return traffic.kind == Kind::all_reduce || traffic.kind == Kind::reduce || traffic.kind == Kind::broadcast;
  if (engine == PeerEngine::chain)
    return traffic.kind == Kind::broadcast || (traffic.kind == Kind::reduce && traffic.chained);
  return engine != PeerEngine::direct || (traffic.symmetric && direct_has(traffic.kind));
}

std::optional<double> predicted_s(PeerEngine engine, const PeerTraffic& traffic, const PeerLines& lines) {
  const bool measured = lines.measured(traffic);
  if (!measured && !is_assumed(engine, traffic)) return {};
  if (engine != PeerEngine::nccl)
    return measured ? lines.seconds(engine, traffic) : assumed_s(lines.gpu().times, engine, traffic);
  std::optional<double> seconds = measured ? lines.seconds(engine, traffic) : assumed_of_nccl_s(traffic, lines.gpu());
  if (seconds && traffic.captured) *seconds += (traffic.ranks - 1) * lines.gpu().times.nccl_alone_s;
  return seconds;
}

bool worth_an_offer(const PeerTraffic& traffic, const GpuKind& gpu) {
  const bool by_pumps = traffic.kind == Kind::all_reduce && traffic.pumped;
  return traffic.ranks > 1 && !by_pumps && traffic.message_bytes() >= gpu.direct.least_offer;
}

PeerEngine fastest(const PeerTraffic& traffic, const PeerLines& lines, bool has_staging) {
  if (const auto learned = lines.learned().fastest(traffic, has_staging)) return *learned;
  // Lines that were measured are fits, and may be drawn out beyond what was: a few percent between them say nothing.
  const double worth = lines.measured(traffic) ? 0.95 : 1;
  auto best = PeerEngine::kernel;
  double least_s = predicted_s(best, traffic, lines).value_or(0);
  for (const PeerEngine engine :
       {PeerEngine::two_shot, PeerEngine::chain, PeerEngine::copy_engine, PeerEngine::direct}) {
    if (!takes(engine, traffic) || (engine == PeerEngine::copy_engine && !has_staging)) continue;
    const std::optional<double> seconds = predicted_s(engine, traffic, lines);
    if (!seconds || *seconds >= worth * least_s) continue;
    best = engine;
    least_s = *seconds;
  }
  // It keeps its peers waiting in a way that only hosts see, so where it gains nothing it is not taken.
  constexpr double kWorthNccl = 0.98;
  if (!takes(PeerEngine::nccl, traffic)) return best;
  const std::optional<double> of_nccl_s = predicted_s(PeerEngine::nccl, traffic, lines);
  return of_nccl_s && *of_nccl_s < kWorthNccl * least_s ? PeerEngine::nccl : best;
}

}  // namespace lanecast
