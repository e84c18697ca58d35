// SPDX-License-Identifier: Apache-2.0
// Why a call among the GPUs of a host takes the engine it takes.
#include <algorithm>
#include <utility>

#include "algorithms/registry.h"
#include "select/explain.h"
#include "select/peer_lines.h"

namespace lanecast {

Explanation explain(const PeerTraffic& traffic, const PeerLines& lines, std::string_view pinned, bool has_staging) {
  Explanation found;
  found.kind = traffic.kind;
  found.bytes = traffic.bytes;
  const bool measured = lines.measured(traffic.kind);
  found.links = "assumed, as on two H200s; `lanecast tune --device cuda` measures";
  const auto choice_of = [&](PeerEngine engine) -> std::optional<Choice> {
    const std::optional<double> seconds = predicted_s(engine, traffic, lines);
    if (!takes(engine, traffic) || !seconds) return {};
    const double latency_s = measured ? lines.latency_s(traffic.kind, engine, traffic.bytes)
                                      : *predicted_s(engine, {traffic.kind, traffic.ranks, 0, true}, lines);
    return Choice{std::string(name_of(engine)), 1, *seconds, latency_s, measured};
  };
  for (std::size_t k = 0; k < kPeerEngines.size(); ++k)
    if (auto choice = choice_of(static_cast<PeerEngine>(k))) found.candidates.push_back(std::move(*choice));
  const std::string_view fastest_way = name_of(fastest(traffic, lines, has_staging));
  // First what a call takes, which need not have the shortest prediction: see fastest().
  std::ranges::sort(found.candidates, {},
                    [&](const Choice& choice) { return std::pair(choice.algorithm != fastest_way, choice.seconds); });
  found.chosen = found.candidates.front();
  if (pinned == kPeers) {
    found.chosen.decided_by = Decider::pinned;
  } else if (!pinned.empty()) {
    const auto named = std::ranges::find(found.candidates, pinned, &Choice::algorithm);
    found.chosen = named == found.candidates.end() ? Choice{std::string(pinned)} : *named;
    found.chosen.decided_by = Decider::pinned;
  }
  found.nccl_s = lines.nccl_s(traffic.kind, traffic.bytes).value_or(0);
  return found;
}

}  // namespace lanecast
