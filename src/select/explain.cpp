// SPDX-License-Identifier: Apache-2.0
#include "select/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lanecast {
namespace {

std::string formatted(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string us(double seconds) { return formatted("%.1f us", seconds * 1e6); }

std::string way(const Choice& choice) {
  return choice.algorithm + (choice.chunks > 1 ? " in " + std::to_string(choice.chunks) + " chunks" : "");
}

std::string basis(const Choice& choice, const std::string& links) {
  if (*choice.basis) return choice.basis;
  return choice.measured ? "measured on this machine" : links;
}

/// What the cost model says to what was learned.
std::string beside_learned(const Explanation& e) {
  const Choice& best = e.candidates.front();
  if (best.algorithm == e.chosen.algorithm) return "the cost model agrees and predicts " + us(best.seconds);
  std::string text = "the cost model would take " + way(best) + ", for which it predicts " + us(best.seconds);
  for (const Choice& each : e.candidates)
    if (each.algorithm == e.chosen.algorithm) text += ", and " + us(each.seconds) + " for this";
  return text;
}

}  // namespace

std::string known_of_links(const Models& models) {
  if (models.measured()) return "from measured links";
  std::string known;
  bool is_assumed = true;
  for (std::size_t level = 0; level < models.links.size(); ++level) {
    const Link& link = models.links[level];
    if (link.source == LinkSource::assumed) continue;
    is_assumed = false;
    known += std::string("; level ") + std::to_string(level) + " " + std::string(name_of(link.source)) + ": " +
             us(link.alpha_s) + ", " + formatted("%.3g GB/s", 1e-9 / link.beta_s_per_byte) + ", " + us(link.gap_s) +
             " a further message";
  }
  if (is_assumed) return "from assumed links; `lanecast tune --quick` measures";
  const std::string when = models.timing.empty() ? "" : ", timed " + models.timing;
  return "from links between hosts" + when + known;
}

std::string Explanation::reason() const {
  const Choice& best = candidates.front();
  if (chosen.decided_by == Decider::learned) {
    const std::string took = chosen.timed ? ", by which this takes " + us(chosen.seconds) : "";
    const std::string where = *chosen.basis ? std::string(", ") + chosen.basis : "";
    return "learned from times of whole calls" + where + took + "; " + beside_learned(*this);
  }
  if (chosen.decided_by == Decider::pinned || chosen.algorithm != best.algorithm || chosen.chunks != best.chunks)
    return "set by the caller, the environment or a file; the model would take " + way(best);
  const bool shortest = candidates.size() < 2 || candidates[1].seconds >= best.seconds;
  std::string text = shortest ? "the shortest prediction: " : "close to the shortest prediction: ";
  text += us(best.seconds) + ", " + us(std::max(0.0, best.seconds - best.latency_s)) + " of it for moving bytes";
  if (candidates.size() > 1)
    text += "; then " + way(candidates[1]) + ", " +
            formatted("%.0f%%", 100 * std::abs(candidates[1].seconds / best.seconds - 1)) +
            (shortest ? " more" : " less, which fits do not tell apart");
  return text + " (" + basis(best, links) + ")";
}

std::string Explanation::str() const {
  std::string text =
      std::string(name_of(kind)) + " of " + std::to_string(bytes) + " bytes: " + way(chosen) + "\n  " + reason();
  std::size_t width = 0;
  for (const Choice& each : candidates) width = std::max(width, way(each).size());
  for (const LeftOut& each : left_out) width = std::max(width, each.algorithm.size());
  const auto padded = [](const std::string& words, std::size_t to) {
    return std::string(words.size() < to ? to - words.size() : 0, ' ');
  };
  for (const Choice& each : candidates) {
    const std::string name = way(each), time = us(each.seconds), on = basis(each, links);
    text.append("\n  ").append(name).append(padded(name, width)).append("  ");
    text.append(padded(time, 12)).append(time).append("  ").append(on, 0, on.find(';'));
  }
  for (const LeftOut& each : left_out)
    text.append("\n  ").append(each.algorithm).append(padded(each.algorithm, width)).append("  ").append(each.why);
  return text;
}

}  // namespace lanecast
