// SPDX-License-Identifier: Apache-2.0
#include "select/peer_lines.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"

namespace lanecast {

PeerLines::PeerLines(const std::vector<Fit>& fits, const GpuKind& gpu) : gpu_(&gpu) {
  for (const Fit& fit : fits) {
    const std::optional<PeerEngine> engine = peer_engine_from(fit.algorithm);
    if (!engine) throw InternalError("GPU profile: no engine " + fit.algorithm);
    Kinds& kinds = fit.half ? of_half_ : of_;
    kinds[static_cast<std::size_t>(fit.kind)][static_cast<std::size_t>(*engine)].push_back(
        {fit.from_bytes, fit.alpha_s, fit.beta_s_per_byte});
  }
  for (Kinds* const kinds : {&of_, &of_half_})
    for (Ways& ways : *kinds)
      for (std::vector<Line>& lines : ways) std::ranges::sort(lines, {}, &Line::from_bytes);
}

PeerLines PeerLines::among(const Models& models, std::string_view gpu, int ranks) {
  PeerLines lines(gpu_kind(gpu));
  const auto of_ranks = [&](const PeerFits& each) { return each.ranks == ranks; };
  const auto ours = [&](const auto& each) { return each.gpu == gpu; };
  const auto fits = std::ranges::find_if(models.peers, [&](const PeerFits& e) { return of_ranks(e) && ours(e); });
  if (fits != models.peers.end()) lines = PeerLines(fits->fits, gpu_kind(gpu));
  const auto in_host = [&](const GpuModel& each) { return each.one_host; };
  const auto model = std::ranges::find_if(models.gpu_models, [&](const GpuModel& e) { return in_host(e) && ours(e); });
  if (model != models.gpu_models.end()) lines.learned_ = LearnedWays(model->ways, ranks);
  if (lines.learned_.empty()) lines.learned_ = LearnedWays(gpu, ranks, lines.measured_kinds());
  if (fits != models.peers.end() || model != models.gpu_models.end()) return lines;
  const auto refuse = [&](const char* what, const auto& each) {
    throw UsageError(what + each.file + ": was measured elsewhere (gpu: " + each.gpu + ", not " +
                     (gpu.empty() ? "several kinds" : std::string(gpu)) +
                     "); measure here with `lanecast tune --device cuda`, or set LANECAST_PROFILE=none");
  };
  for (const PeerFits& each : models.peers)
    if (of_ranks(each) && !each.file.empty()) refuse("GPU profile ", each);
  for (const GpuModel& each : models.gpu_models)
    if (each.one_host && !each.file.empty()) refuse("model ", each);
  return lines;
}

PeerLines PeerLines::learned_from(const GpuModel& model, int ranks) {
  PeerLines lines(gpu_kind(model.gpu));
  lines.learned_ = LearnedWays(model.ways, ranks);
  return lines;
}

LearnedWays::OfKinds PeerLines::measured_kinds() const {
  LearnedWays::OfKinds measured{};
  const auto kernel = static_cast<std::size_t>(PeerEngine::kernel);
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    measured[kind] = !of_[kind][kernel].empty() || !of_half_[kind][kernel].empty();
  return measured;
}

bool PeerLines::measured(const PeerTraffic& traffic) const { return find(PeerEngine::kernel, traffic); }

const PeerLines::Line* PeerLines::find(PeerEngine engine, const PeerTraffic& traffic) const {
  if (traffic.kind == Kind::composition) return nullptr;
  const auto kind = static_cast<std::size_t>(traffic.kind);
  const bool has_half = !of_half_[kind][static_cast<std::size_t>(PeerEngine::kernel)].empty();
  const std::vector<Line>& lines = (traffic.half && has_half ? of_half_ : of_)[kind][static_cast<std::size_t>(engine)];
  if (lines.empty()) return nullptr;
  const auto above = std::ranges::upper_bound(lines, traffic.bytes, {}, &Line::from_bytes);
  return above == lines.begin() ? &lines.front() : &*std::prev(above);
}

std::optional<double> PeerLines::seconds(PeerEngine engine, const PeerTraffic& traffic) const {
  const Line* const line = find(engine, traffic);
  if (line == nullptr) return {};
  return line->alpha_s + static_cast<double>(traffic.bytes) * line->beta_s_per_byte;
}

double PeerLines::latency_s(PeerEngine engine, const PeerTraffic& traffic) const {
  const Line* const line = find(engine, traffic);
  return line ? line->alpha_s : 0;
}

}  // namespace lanecast
