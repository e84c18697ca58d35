// SPDX-License-Identifier: Apache-2.0
// Which algorithm a call takes: what the user has pinned, else the cost model over models that are equal on every rank.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/agreed.h"
#include "runtime/communicator.h"
#include "runtime/exchange.h"

namespace lanecast {
namespace {

constexpr std::size_t kNameBytes = 40;

/// Any line of the models on its way to other ranks.
struct Line {
  enum class What : std::int32_t { link, fit, overlap } what{};
  std::int32_t kind = 0;
  std::int32_t level = 0;
  std::array<char, kNameBytes> name{};
  std::uint64_t from_bytes = 0;
  std::array<double, 4> numbers{};
};

std::vector<Line> lines_of(const Models& models) {
  std::vector<Line> lines;
  lines.reserve(models.links.size() + models.fits.size() + models.overlaps.size());
  for (const Link& link : models.links)
    lines.push_back(
        {Line::What::link, 0, 0, {}, 0, {link.alpha_s, link.beta_s_per_byte, models.reduce_s_per_byte, link.unsteady}});
  for (const Fit& fit : models.fits) {
    Line line{Line::What::fit, static_cast<std::int32_t>(fit.kind),  fit.level, {},
              fit.from_bytes,  {fit.alpha_s, fit.beta_s_per_byte, 0}};
    if (fit.algorithm.size() >= kNameBytes) throw UsageError("models: no algorithm is called " + fit.algorithm);
    std::ranges::copy(fit.algorithm, line.name.begin());
    lines.push_back(line);
  }
  for (const Overlap& o : models.overlaps)
    lines.push_back({Line::What::overlap, static_cast<std::int32_t>(o.kind), 0, {}, 0, {o.hidden, o.latency, o.scale}});
  return lines;
}

Models models_from(std::string_view bytes) {
  Models models;
  for (; bytes.size() >= sizeof(Line); bytes.remove_prefix(sizeof(Line))) {
    Line line;
    std::memcpy(&line, bytes.data(), sizeof line);
    const auto& [a, b, c, d] = line.numbers;
    switch (line.what) {
      case Line::What::link:
        models.links.push_back({a, b, d});
        models.reduce_s_per_byte = c;
        break;
      case Line::What::fit:
        models.fits.push_back({static_cast<Kind>(line.kind), line.name.data(), line.level, line.from_bytes, a, b});
        break;
      case Line::What::overlap:
        models.overlaps.push_back({static_cast<Kind>(line.kind), a, b, c});
        break;
    }
  }
  return models;
}

}  // namespace

void Communicator::adopt(const Models& models, const std::string& refusal) {
  const std::unique_lock lock = enter();
  refuse_if_failed();
  if (!started_.empty()) throw UsageError("models: wait for the started calls of this communicator first");
  const Bootstrap bootstrap =
      bootstrap_over(router_, topology_.everyone(), rank(), options_.timeout_s.value_or(kTimeout_s));
  const std::string packed = agreed(bootstrap, [&] {
    if (rank() != 0) return std::string();
    if (!refusal.empty()) throw UsageError(refusal);
    if (models.links.empty()) return std::string();
    if (models.links.size() != models_.links.size())
      throw UsageError("models: have links for " + std::to_string(models.links.size()) + " levels, topology " +
                       topology_.str() + " has " + std::to_string(models_.links.size()));
    const std::vector<Line> lines = lines_of(models);
    return std::string(reinterpret_cast<const char*>(lines.data()), lines.size() * sizeof(Line));
  });
  const std::string known = bootstrap.all_gather_strings(packed)[0];
  if (known.empty()) return;
  models_ = models_from(known);
  plans_ = std::make_unique<PlanCache>(topology_, rank(), *router_, options_.executor);
}

std::vector<Choice> Communicator::candidates(const Call& call) const {
  return lanecast::candidates({call.kind, full_bytes(call, size()), call.own_counts(), in_rank_order(call)}, topology_,
                              models_);
}

std::string_view Communicator::pinned_for(const Call& call) const {
  if (!call.algorithm.empty() || options_.algorithm.empty()) return call.algorithm;
  // The communicator's algorithm is for the collectives that have it; a name that none has is refused by planning.
  const std::string_view usual = options_.algorithm;
  const bool meant = has_algorithm(call.kind, topology_, usual) || !any_has_algorithm(topology_, usual);
  return meant ? usual : std::string_view();
}

bool Communicator::in_rank_order(const Call& call) const {
  const bool sums = Collective{call.kind}.reduces();
  if (!sums || !call.reproducible.value_or(options_.reproducible.value_or(false))) return false;
  // Our own kernels give integers the same bits in every order; of floats, min and max take -0 and 0 for equal.
  return is_float(call.dtype) || pinned_for(call).find("native") != std::string_view::npos;
}

Choice Communicator::chosen(const Call& call) const {
  const bool reproducible = in_rank_order(call);
  // What is pinned for every call gathers finished parts, which of reproducible sums only an all-reduce has.
  const std::string pinned(reproducible && call.kind != Kind::all_reduce ? call.algorithm : pinned_for(call));
  const Request request{call.kind, full_bytes(call, size()), call.own_counts(), reproducible};
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (pinned.empty()) {
    Choice choice = choose(request, topology_, models_);
    if (chunks) choice.chunks = chunks;
    return choice;
  }
  if (std::ranges::count(algorithms_for(call.kind, topology_, reproducible), pinned) == 0)
    return {pinned};  // planning refuses it
  return predict(request, topology_, models_, pinned, chunks);
}

}  // namespace lanecast
