// SPDX-License-Identifier: Apache-2.0
// Why a call among the GPUs of a host takes the engine it takes.
#include <algorithm>
#include <utility>

#include "algorithms/registry.h"
#include "select/explain.h"
#include "select/peer_lines.h"

namespace lanecast {
namespace {

/// What is known of an engine's time.
std::optional<Choice> choice_of(PeerEngine engine, const PeerQuestion& question, const PeerLines& lines) {
  const PeerTraffic& traffic = question.traffic;
  // Times of whole calls and predictions say nothing beside each other.
  if (lines.learned().is_timed(traffic, question.has_staging)) {
    const std::optional<double> timed = lines.learned().seconds(engine, traffic, question.has_staging);
    return timed ? std::optional(Choice{std::string(name_of(engine)), 1, *timed, 0, /*measured=*/true}) : std::nullopt;
  }
  const std::optional<double> seconds = predicted_s(engine, traffic, lines);
  if (!takes(engine, traffic) || !seconds) return {};
  const bool measured = lines.measured(traffic);
  Choice choice{std::string(name_of(engine)), 1, *seconds, 0, measured};
  if (measured) {
    choice.latency_s = lines.latency_s(engine, traffic);
  } else if (engine == PeerEngine::nccl) {
    PeerTraffic nothing = traffic;
    nothing.bytes = 0;
    choice.latency_s = predicted_s(engine, nothing, lines).value_or(0);
    choice.basis = "beside our own, as timed on as many such GPUs without multicast";
  } else {
    choice.latency_s = predicted_s(engine, {traffic.kind, traffic.ranks, 0, true}, lines).value_or(0);
  }
  return choice;
}

std::string why_not(PeerEngine engine, const PeerQuestion& question, const PeerLines& lines) {
  const PeerTraffic& traffic = question.traffic;
  if (engine == PeerEngine::nccl && !traffic.nccl) return question.no_nccl;
  if (engine == PeerEngine::direct && direct_has(traffic.kind) && !traffic.symmetric)
    return "the buffers do not lie in symmetric memory";
  if (engine == PeerEngine::chain && traffic.kind == Kind::reduce && !traffic.chained)
    return "adds in an order of its own, and rounds on the way";
  if (!takes(engine, traffic)) return "has no " + std::string(name_of(traffic.kind));
  if (lines.learned().fastest(traffic, question.has_staging) == engine) return "no line of its time is known";
  if (lines.learned().is_timed(traffic, question.has_staging))
    return "was the fastest at no size where such calls were timed";
  return "not timed among " + std::to_string(traffic.ranks) + " such GPUs; `lanecast tune --device cuda` does";
}

/// What a call takes, after what a trial of NCCL has said.
std::string_view by_trial(Explanation& found, const PeerQuestion& question, const PeerLines& lines) {
  const PeerEngine modelled = fastest(question.traffic, lines, question.has_staging);
  if (!question.is_tried) return name_of(modelled);
  std::erase_if(found.candidates, [](const Choice& choice) { return choice.algorithm == kNccl; });
  std::erase_if(found.left_out, [](const Explanation::LeftOut& each) { return each.algorithm == kNccl; });
  PeerTraffic ours = question.traffic;
  ours.nccl = false;
  const std::string_view best_of_ours = name_of(fastest(ours, lines, question.has_staging));
  if (!question.tried) {
    found.left_out.push_back({std::string(kNccl), "it may take multicast, so the first calls of this size try it"});
    return best_of_ours;
  }
  const auto [ours_s, nccls_s] = *question.tried;
  const char* const basis = "timed in the first calls of this size";
  for (Choice& choice : found.candidates)
    if (choice.algorithm == best_of_ours) {
      choice.seconds = ours_s;
      choice.latency_s = 0;
      choice.basis = basis;
    }
  found.candidates.push_back({.algorithm = std::string(kNccl), .seconds = nccls_s, .measured = true, .basis = basis});
  return Trials::faster(*question.tried) == Trials::Way::nccls ? kNccl : best_of_ours;
}

}  // namespace

Explanation explain(const PeerQuestion& question, const PeerLines& lines) {
  const PeerTraffic& traffic = question.traffic;
  Explanation found;
  found.kind = traffic.kind;
  found.bytes = traffic.bytes;
  found.nccl_is_tried = question.is_tried;
  found.links = "assumed, as on two H200s; `lanecast tune --device cuda` measures";
  for (std::size_t k = 0; k < kPeerEngines.size(); ++k) {
    const auto engine = static_cast<PeerEngine>(k);
    if (auto choice = choice_of(engine, question, lines))
      found.candidates.push_back(std::move(*choice));
    else if (std::string why = why_not(engine, question, lines); !why.empty())
      found.left_out.push_back({std::string(name_of(engine)), std::move(why)});
  }
  const std::string_view fastest_way = by_trial(found, question, lines);
  const bool learned = !question.is_tried && lines.learned().fastest(traffic, question.has_staging);
  // First what a call takes, which need not have the shortest prediction: see fastest().
  std::ranges::sort(found.candidates, {}, [&](const Choice& choice) {
    return std::pair(!learned && choice.algorithm != fastest_way, choice.seconds);
  });
  const auto taken = std::ranges::find(found.candidates, fastest_way, &Choice::algorithm);
  // A learned choice may be one of which no line is known.
  found.chosen = taken == found.candidates.end() ? Choice{std::string(fastest_way)} : *taken;
  if (learned) {
    found.chosen.decided_by = Decider::learned;
    found.chosen.timed = lines.learned().is_timed(traffic, question.has_staging);
    found.chosen.basis = lines.learned().is_shipped() ? "as they come with Lanecast for such GPUs" : "";
  }
  if (question.pinned.empty()) return found;
  const auto named = question.pinned == kPeers
                         ? std::ranges::find_if(found.candidates, [](const Choice& c) { return c.algorithm != kNccl; })
                         : std::ranges::find(found.candidates, question.pinned, &Choice::algorithm);
  found.chosen = named == found.candidates.end() ? Choice{std::string(question.pinned)} : *named;
  found.chosen.decided_by = Decider::pinned;
  return found;
}

}  // namespace lanecast
