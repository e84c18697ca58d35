// SPDX-License-Identifier: Apache-2.0
#include "select/peer_engines.h"

#include <algorithm>

#include "plan/collective.h"
#include "select/peer_lines.h"

namespace lanecast {
namespace {

/// T = α + bytes·β + min(bytes, kFirst)·γ for the bytes that a rank sends, on H200s linked by NVLink 4. γ: of the first
/// pieces, which nothing overlaps.
struct EngineLine {
  double alpha_s, beta_s_per_byte, gamma_s_per_byte = 0;
};
constexpr double kFirst = 16 << 20;
constexpr EngineLine kKernel{7.3e-6, 1 / 340e9, 0.6e-12}, kCopyEngine{35e-6, 1 / 303e9};
constexpr EngineLine kDirectCopy{7.5e-6, 1 / 355e9}, kDirectReduction{8.6e-6, 1 / 324e9},
    kDirectMessages{20e-6, 1 / 355e9};
// On H100s. With few multiprocessors what an all-reduce adds, reads and writes decides, not the link, of which the
// others keep more than this: so each byte should be reduced once, and not be copied where that is not needed.
constexpr EngineLine kTwoShot{12e-6, 1 / 330e9}, kTwoShotByFew{12e-6, 1 / 341e9}, kTwoShotPumped{42e-6, 1 / 365e9},
    kDirectAllReduceByFew{8.6e-6, 1 / 345e9};
// Of a broadcast in two shots, among four H200s.
constexpr EngineLine kSpread{15e-6, 1 / 260e9};

double at(const EngineLine& line, double bytes) {
  return line.alpha_s + bytes * line.beta_s_per_byte + std::min(bytes, kFirst) * line.gamma_s_per_byte;
}

/// Until somebody measures.
double assumed_s(PeerEngine engine, const PeerTraffic& traffic) {
  const double to_all = static_cast<double>(traffic.message_bytes()) * (traffic.ranks - 1);
  const double share = to_all / traffic.ranks;  // of a vector that each rank reduces a part of
  switch (engine) {
    case PeerEngine::kernel:
      return at(kKernel, to_all);
    case PeerEngine::two_shot:
      if (traffic.kind == Kind::broadcast) return at(kSpread, static_cast<double>(traffic.bytes));
      return at(traffic.few_ctas ? kTwoShotByFew : traffic.pumped ? kTwoShotPumped : kTwoShot, 2 * share);
    case PeerEngine::copy_engine:
      return at(kCopyEngine, to_all);
    case PeerEngine::direct:
      break;
  }
  if (!reduces(traffic.kind)) return at(traffic.kind == Kind::all_gather ? kDirectCopy : kDirectMessages, to_all);
  if (traffic.kind == Kind::reduce_scatter) return at(kDirectReduction, to_all);
  return at(traffic.few_ctas ? kDirectAllReduceByFew : kDirectReduction, 2 * share);
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
  if (engine == PeerEngine::two_shot) return traffic.kind == Kind::all_reduce || traffic.kind == Kind::broadcast;
  return engine != PeerEngine::direct || (traffic.symmetric && direct_has(traffic.kind));
}

std::optional<double> predicted_s(PeerEngine engine, const PeerTraffic& traffic, const PeerLines& lines) {
  if (lines.measured(traffic.kind)) return lines.seconds(traffic.kind, engine, traffic.bytes);
  return assumed_s(engine, traffic);
}

bool worth_an_offer(const PeerTraffic& traffic) {
  constexpr std::size_t kShort = std::size_t{512} << 10;  // below, a launch takes longer than copies to and from slots
  return traffic.ranks > 1 && traffic.message_bytes() >= kShort;
}

PeerEngine fastest(const PeerTraffic& traffic, const PeerLines& lines, bool has_staging) {
  // Lines that were measured are fits, and may be drawn out beyond what was: a few percent between them say nothing.
  const double worth = lines.measured(traffic.kind) ? 0.95 : 1;
  auto best = PeerEngine::kernel;
  double least_s = predicted_s(best, traffic, lines).value_or(0);
  for (const PeerEngine engine : {PeerEngine::two_shot, PeerEngine::copy_engine, PeerEngine::direct}) {
    if (!takes(engine, traffic) || (engine == PeerEngine::copy_engine && !has_staging)) continue;
    const std::optional<double> seconds = predicted_s(engine, traffic, lines);
    if (!seconds || *seconds >= worth * least_s) continue;
    best = engine;
    least_s = *seconds;
  }
  return best;
}

}  // namespace lanecast
