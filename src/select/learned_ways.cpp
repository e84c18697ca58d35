// SPDX-License-Identifier: Apache-2.0
#include "select/learned_ways.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {
namespace {

constexpr double kCoarse = 8, kFine = 256;  // steps of a doubling: a class between two equal ones has one at least

std::size_t bytes_at(double log2_bytes) { return static_cast<std::size_t>(std::llround(std::exp2(log2_bytes))); }

/// Can calls of the one kind go by what holds for the other? Sums of 16-bit floats go as others where nobody has timed
/// them; symmetric memory and copy engines need not be used.
bool holds_for(const WayCalls& learned, const WayCalls& call) {
  return learned.captured == call.captured && learned.few_ctas == call.few_ctas && learned.half <= call.half &&
         learned.symmetric <= call.symmetric && learned.copy_engine <= call.copy_engine;
}

int closeness(const WayCalls& calls) { return 4 * calls.half + 2 * calls.symmetric + calls.copy_engine; }

}  // namespace

LearnedWays::LearnedWays(const std::vector<GpuModel::Way>& ways, int ranks) : ranks_(ranks) {
  for (const GpuModel::Way& way : ways)
    if (std::ranges::any_of(way.machine.timed_on, [&](const auto& on) { return on[0] <= ranks && ranks <= on[1]; }))
      of_[static_cast<std::size_t>(way.machine.kind)].push_back(borders_of(way, ranks));
}

LearnedWays::LearnedWays(std::string_view gpu, int ranks, const OfKinds& measured) : ranks_(ranks), is_shipped_(true) {
  for (const LearnedTable& table : gpu_kind(gpu).learned) {
    if (table.gpu != gpu) continue;
    for (const LearnedBorder& border : table.borders) {
      if (border.ranks != ranks || measured[static_cast<std::size_t>(border.kind)]) continue;
      std::vector<Borders>& of_kind = of_[static_cast<std::size_t>(border.kind)];
      if (of_kind.empty() || of_kind.back().calls != border.calls)
        of_kind.push_back({border.calls, border.from_bytes, table.most_bytes, {}, {}});
      of_kind.back().from.push_back({border.from_bytes, border.engine});
    }
  }
}

LearnedWays::Borders LearnedWays::borders_of(const GpuModel::Way& way, int ranks) {
  const Learned& machine = way.machine;
  Borders found{way.calls, machine.least_bytes, machine.most_bytes, {}, {}};
  std::vector<PeerEngine> engines;
  std::vector<bool> allowed;
  for (std::size_t k = 0; k < machine.algorithms.size(); ++k) {
    engines.push_back(peer_engine_from(machine.algorithms[k]).value_or(PeerEngine::kernel));
    allowed.push_back(machine.timed_on[k][0] <= ranks && ranks <= machine.timed_on[k][1]);
    if (k < machine.times.size()) found.times.emplace_back(engines[k], machine.times[k]);
  }
  const auto at = [&](double log2_bytes) {
    return engines[vote(machine.svm, features_of(bytes_at(log2_bytes), ranks, ranks), allowed)];
  };
  const double first = std::log2(machine.least_bytes), last = std::log2(machine.most_bytes);
  found.from.push_back({machine.least_bytes, at(first)});
  for (double below = first; below < last;) {
    const double above = std::min(last, below + 1 / kCoarse);
    const PeerEngine engine = at(above);
    double low = below, high = above;
    while (engine != found.from.back().engine && high - low > 1 / kFine)
      (at((low + high) / 2) == engine ? high : low) = (low + high) / 2;
    if (engine != found.from.back().engine) found.from.push_back({bytes_at(high), engine});
    below = above;
  }
  return found;
}

std::vector<LearnedBorder> LearnedWays::table() const {
  std::vector<LearnedBorder> rows;
  for (std::size_t kind = 0; kind < of_.size(); ++kind)
    for (const Borders& borders : of_[kind])
      for (const Border& border : borders.from)
        rows.push_back({static_cast<Kind>(kind), ranks_, borders.calls, border.from_bytes, border.engine});
  return rows;
}

bool LearnedWays::empty() const {
  return std::ranges::all_of(of_, [](const std::vector<Borders>& of_kind) { return of_kind.empty(); });
}

const LearnedWays::Borders* LearnedWays::find(const PeerTraffic& traffic, bool has_staging) const {
  if (traffic.kind == Kind::composition) return nullptr;
  const WayCalls call{traffic.half, traffic.captured, traffic.symmetric, has_staging, traffic.few_ctas};
  const Borders* found = nullptr;
  for (const Borders& each : of_[static_cast<std::size_t>(traffic.kind)]) {
    const bool covers = each.least_bytes <= traffic.bytes && traffic.bytes <= each.most_bytes;
    if (covers && holds_for(each.calls, call) && (!found || closeness(found->calls) < closeness(each.calls)))
      found = &each;
  }
  return found;
}

std::optional<PeerEngine> LearnedWays::fastest(const PeerTraffic& traffic, bool has_staging) const {
  const Borders* const borders = find(traffic, has_staging);
  if (borders == nullptr) return {};
  const auto above = std::ranges::upper_bound(borders->from, traffic.bytes, {}, &Border::from_bytes);
  const PeerEngine engine = std::prev(above)->engine;
  // The fastest of all is the fastest of those that are left. Where it is none of them nobody knows the next one.
  return takes(engine, traffic) ? std::optional(engine) : std::nullopt;
}

bool LearnedWays::is_timed(const PeerTraffic& traffic, bool has_staging) const {
  const std::optional<PeerEngine> engine = fastest(traffic, has_staging);
  return engine && seconds(*engine, traffic, has_staging);
}

std::optional<double> LearnedWays::seconds(PeerEngine engine, const PeerTraffic& traffic, bool has_staging) const {
  const Borders* const borders = find(traffic, has_staging);
  if (borders == nullptr) return {};
  for (const auto& [timed, calls] : borders->times)
    if (const double known = timed == engine ? timed_s(calls, traffic.bytes, ranks_) : 0; known > 0) return known;
  return {};
}

}  // namespace lanecast
