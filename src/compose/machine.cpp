// SPDX-License-Identifier: Apache-2.0
#include "compose/machine.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {
namespace {

std::string braces(const std::vector<int>& factors) {
  std::string text;
  for (const int factor : factors) text += (text.empty() ? "{" : ",") + std::to_string(factor);
  return text + "}";
}

/// Neighbours of the real machine's row fall into equal domains.
Topology factored(const std::vector<int>& factors, const Topology& real) {
  long product = 1;
  for (const int factor : factors) {
    if (factor < 1) throw UsageError("hierarchy " + braces(factors) + ": a factor is at least 1");
    product = std::min<long>(product * factor, INT32_MAX);
  }
  if (product != real.size())
    throw UsageError("hierarchy " + braces(factors) + ": the product is " + std::to_string(product) +
                     ", but there are " + std::to_string(real.size()) + " ranks");
  const Hierarchy row(real);
  std::vector<Level> levels;
  int inside = real.size();
  for (std::size_t k = 0; k + 1 < factors.size(); ++k) {
    inside /= factors[k];
    Level level{"level", std::vector<int>(real.size())};
    for (int r = 0; r < real.size(); ++r) level.domain[r] = row.place(r) / inside;
    levels.push_back(std::move(level));
  }
  return {real.size(), std::move(levels)};
}

Topology chosen(const Topology& real, const Shaping& shaping) {
  if (!shaping.factors.empty()) return factored(shaping.factors, real);
  const Topology& topology = shaping.hierarchy.value_or(real);
  if (topology.size() != real.size())
    throw UsageError("hierarchy " + topology.str() + ": describes " + std::to_string(topology.size()) +
                     " ranks, but there are " + std::to_string(real.size()));
  return topology;
}

}  // namespace

Machine::Machine(const Topology& real, const Shaping& shaping) : topology(chosen(real, shaping)), hierarchy(topology) {
  set_ring(shaping.ring);
  set_stripe(real, shaping.stripe);
}

void Machine::set_ring(int ring) {
  if (ring == 0 || ring == 1) return;
  std::string known;
  for (int k = 0; k <= hierarchy.levels(); ++k) {
    if (hierarchy.domains(k) == ring) {
      ring_level = k;
      return;
    }
    known += (known.empty() ? "" : ", ") + std::to_string(hierarchy.domains(k));
  }
  throw UsageError("ring: " + std::to_string(ring) + " domains, but the levels of hierarchy " + topology.str() +
                   " have " + known + "; 1 is no ring");
}

void Machine::set_stripe(const Topology& real, int wanted) {
  if (wanted < 0) throw UsageError("stripe: " + std::to_string(wanted) + " is no number of ranks");
  stripe = wanted > 0 ? wanted : real.levels() > 0 ? Hierarchy(real).largest(0) : 1;
  if (stripe == 1) return;
  const int outermost = std::max(ring_level, 0);
  const int most = hierarchy.levels() > 0 ? hierarchy.largest(outermost) : 1;
  if (stripe > most && wanted > 0)
    throw UsageError("stripe: " + std::to_string(stripe) + " ranks, but the largest domain of hierarchy " +
                     topology.str() + " has " + std::to_string(most));
  stripe = std::min(stripe, most);
  if (stripe == 1) return;
  node_level = outermost;
  for (int k = outermost; ring_level < 0 && k < hierarchy.levels() && hierarchy.largest(k) >= stripe; ++k)
    node_level = k;
}

int Machine::stages() const {
  const int ring_hops = ring_level < 0 ? 0 : hierarchy.domains(ring_level) - 1;
  return 1 + ring_hops + hierarchy.levels() - ring_level;
}

std::string Machine::str() const {
  std::string text = topology.str();
  if (!hierarchy.in_rank_order() || text.find("uneven") != std::string::npos)  // the text does not say it all
    text += "#" + std::to_string(topology.digest() % 100000);
  if (ring_level >= 0) text += ", ring " + std::to_string(hierarchy.domains(ring_level));
  if (stripe > 1) text += ", stripe " + std::to_string(stripe);
  return text;
}

}  // namespace lanecast
