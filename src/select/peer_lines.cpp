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
    const std::size_t way = engine ? static_cast<std::size_t>(*engine) : kByNccl;
    of_[static_cast<std::size_t>(fit.kind)][way].push_back({fit.from_bytes, fit.alpha_s, fit.beta_s_per_byte});
  }
  for (Ways& ways : of_)
    for (std::vector<Line>& lines : ways) std::ranges::sort(lines, {}, &Line::from_bytes);
}

PeerLines PeerLines::among(const std::vector<PeerFits>& measured, std::string_view gpu, int ranks) {
  const auto of_ranks = [&](const PeerFits& each) { return each.ranks == ranks; };
  for (const PeerFits& each : measured)
    if (of_ranks(each) && each.gpu == gpu) return PeerLines(each.fits, gpu_kind(gpu));
  for (const PeerFits& each : measured)
    if (of_ranks(each) && !each.file.empty())
      throw UsageError("GPU profile " + each.file + ": was measured elsewhere (gpu: " + each.gpu + ", not " +
                       (gpu.empty() ? "several kinds" : std::string(gpu)) +
                       "); measure here with `lanecast tune --device cuda`, or set LANECAST_PROFILE=none");
  return PeerLines(gpu_kind(gpu));
}

bool PeerLines::measured(Kind kind) const { return find(kind, static_cast<std::size_t>(PeerEngine::kernel), 0); }

const PeerLines::Line* PeerLines::find(Kind kind, std::size_t way, std::size_t bytes) const {
  if (kind == Kind::composition) return nullptr;
  const std::vector<Line>& lines = of_[static_cast<std::size_t>(kind)][way];
  if (lines.empty()) return nullptr;
  const auto above = std::ranges::upper_bound(lines, bytes, {}, &Line::from_bytes);
  return above == lines.begin() ? &lines.front() : &*std::prev(above);
}

std::optional<double> PeerLines::at(Kind kind, std::size_t way, std::size_t bytes) const {
  const Line* const line = find(kind, way, bytes);
  if (line == nullptr) return {};
  return line->alpha_s + static_cast<double>(bytes) * line->beta_s_per_byte;
}

std::optional<double> PeerLines::seconds(Kind kind, PeerEngine engine, std::size_t bytes) const {
  return at(kind, static_cast<std::size_t>(engine), bytes);
}

double PeerLines::latency_s(Kind kind, PeerEngine engine, std::size_t bytes) const {
  const Line* const line = find(kind, static_cast<std::size_t>(engine), bytes);
  return line ? line->alpha_s : 0;
}

std::optional<double> PeerLines::nccl_s(Kind kind, std::size_t bytes) const { return at(kind, kByNccl, bytes); }

}  // namespace lanecast
