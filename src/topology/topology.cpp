// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/mix.h"
#include "topology/limits.h"

namespace lanecast {
namespace {

void require_ranks(const std::vector<int>& ranks, int size) {
  if (ranks.empty()) throw UsageError("ranks: at least one is needed");
  std::vector<bool> named(size);
  for (int r : ranks) {
    if (r < 0 || r >= size)
      throw UsageError("ranks: rank " + std::to_string(r) + " does not exist among " + std::to_string(size));
    if (named[r]) throw UsageError("ranks: rank " + std::to_string(r) + " is named twice");
    named[r] = true;
  }
}

}  // namespace

Topology::Topology(int size, std::vector<Level> levels) : size_(size), levels_(std::move(levels)) {
  if (size < 1) throw UsageError("size: a topology needs at least one rank, not " + std::to_string(size));
  if (levels_.size() > kMostLevels)
    throw UsageError("topology: " + std::to_string(levels_.size()) + " levels above the ranks, at most " +
                     std::to_string(kMostLevels) + " are possible");
  const std::vector<int>* outer = nullptr;
  for (const Level& level : levels_) {
    if (static_cast<int>(level.domain.size()) != size)
      throw UsageError("topology: level '" + level.name + "' places " + std::to_string(level.domain.size()) +
                       " ranks, the communicator has " + std::to_string(size));
    std::map<int, int> around;  // inner domain → outer domain
    for (int r = 0; outer && r < size; ++r)
      if (around.try_emplace(level.domain[r], (*outer)[r]).first->second != (*outer)[r])
        throw UsageError("topology: domain " + std::to_string(level.domain[r]) + " of level '" + level.name +
                         "' (rank " + std::to_string(r) + ") reaches into two domains of the level around it");
    outer = &level.domain;
  }
}

std::vector<int> Topology::everyone() const {
  std::vector<int> ranks(size_);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<std::vector<int>> Topology::partition(const std::vector<int>& ranks, int k) const {
  require_ranks(ranks, size_);
  if (k < 0 || k >= levels())
    throw UsageError("level: " + std::to_string(k) + " does not exist in topology " + str() + " of " +
                     std::to_string(levels()) + " levels above the ranks");
  std::vector<std::vector<int>> domains;
  std::map<int, std::size_t> index;
  for (int r : ranks) {
    const auto [at, fresh] = index.try_emplace(levels_[k].domain[r], domains.size());
    if (fresh) domains.emplace_back();
    domains[at->second].push_back(r);
  }
  return domains;
}

bool Topology::divides(const std::vector<int>& ranks, int k) const {
  const auto& domain = levels_[k].domain;
  return std::any_of(ranks.begin(), ranks.end(), [&](int r) { return domain[r] != domain[ranks[0]]; });
}

int Topology::parting_level(int a, int b) const {
  int k = 0;
  while (k < levels() && levels_[k].domain[a] == levels_[k].domain[b]) ++k;
  return k;
}

std::vector<std::vector<std::size_t>> Topology::group_sizes() const {
  std::vector<std::vector<std::size_t>> sizes;
  std::vector<std::vector<int>> around{everyone()};
  for (int k = 0; k < levels(); ++k) {
    std::vector<std::vector<int>> inner;
    sizes.emplace_back();
    for (const auto& ranks : around) {
      const auto parts = partition(ranks, k);
      sizes.back().push_back(parts.size());
      inner.insert(inner.end(), parts.begin(), parts.end());
    }
    around = std::move(inner);
  }
  sizes.emplace_back();
  for (const auto& ranks : around) sizes.back().push_back(ranks.size());
  return sizes;
}

Topology Topology::subset(const std::vector<int>& ranks) const {
  require_ranks(ranks, size_);
  std::vector<Level> kept;
  for (int k = 0; k < levels(); ++k) {
    if (!divides(ranks, k)) continue;
    kept.push_back({levels_[k].name, {}});
    for (int r : ranks) kept.back().domain.push_back(levels_[k].domain[r]);
  }
  return {static_cast<int>(ranks.size()), std::move(kept)};
}

std::string Topology::str() const {
  if (levels_.empty()) return std::to_string(size_);
  std::string text;
  std::vector<std::vector<int>> domains{everyone()};
  for (int k = 0; k < levels(); ++k) {  // even levels multiply; the first uneven one is written out and ends the text
    std::vector<std::vector<int>> inner;
    std::vector<std::size_t> counts;
    for (const auto& ranks : domains) {
      const auto parts = partition(ranks, k);
      counts.push_back(parts.size());
      inner.insert(inner.end(), parts.begin(), parts.end());
    }
    if (std::any_of(counts.begin(), counts.end(), [&](std::size_t n) { return n != counts[0]; }))
      return text + "uneven(" + std::to_string(inner.size()) + " " + levels_[k].name + "s)";
    domains = std::move(inner);
    const bool last = k + 1 == levels();
    const bool even =
        std::all_of(domains.begin(), domains.end(), [&](auto& d) { return d.size() == domains[0].size(); });
    if (last && !even) {
      for (std::size_t d = 0; d < domains.size(); ++d) text += (d ? "+" : "") + std::to_string(domains[d].size());
      return text;
    }
    text += std::to_string(counts[0]) + "x";
    if (last) text += std::to_string(domains[0].size());
  }
  return text;
}

std::uint64_t Topology::digest() const {
  std::uint64_t hash = mix(0, static_cast<std::uint64_t>(size_));
  for (const Level& level : levels_) {
    std::map<int, int> first;  // rank of each domain
    for (int r = 0; r < size_; ++r)
      hash = mix(hash, static_cast<std::uint64_t>(first.try_emplace(level.domain[r], r).first->second));
  }
  return hash;
}

}  // namespace lanecast
