// SPDX-License-Identifier: Apache-2.0
#include "compose/hierarchy.h"

#include <algorithm>

namespace lanecast {

Hierarchy::Hierarchy(const Topology& topology) : rank_(topology.everyone()), place_(rank_.size()) {
  std::vector<std::vector<int>> domains{rank_};
  std::vector<std::vector<int>> sizes;
  for (int k = 0; k < topology.levels(); ++k) {
    std::vector<std::vector<int>> inner;
    for (const auto& ranks : domains)
      for (auto& part : topology.partition(ranks, k)) inner.push_back(std::move(part));
    domains = std::move(inner);
    sizes.emplace_back();
    for (const auto& ranks : domains) sizes.back().push_back(static_cast<int>(ranks.size()));
  }
  sizes.emplace_back(rank_.size(), 1);
  rank_.clear();
  for (const auto& ranks : domains) rank_.insert(rank_.end(), ranks.begin(), ranks.end());
  for (std::size_t p = 0; p < rank_.size(); ++p) place_[rank_[p]] = static_cast<int>(p);
  for (const auto& level : sizes) {
    auto& runs = runs_.emplace_back();
    for (const int n : level) {
      const int first = static_cast<int>(runs.size());
      runs.insert(runs.end(), n, RowRun{first, first + n});
    }
  }
}

int Hierarchy::domains(int level) const {
  return static_cast<int>(
      std::ranges::count_if(runs_[level], [&, place = 0](const RowRun& run) mutable { return run.first == place++; }));
}

int Hierarchy::largest(int level) const { return std::ranges::max_element(runs_[level], {}, &RowRun::size)->size(); }

bool Hierarchy::in_rank_order() const { return std::ranges::is_sorted(rank_); }

}  // namespace lanecast
