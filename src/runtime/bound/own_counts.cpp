// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/own_counts.h"

#include <algorithm>

#include "algorithms/registry.h"
#include "base/error.h"
#include "runtime/bound/layout.h"

namespace lanecast {

std::shared_ptr<const OwnCounts> own_counts_of(const Plan& plan, const Shape& shape) {
  if (!shape.own_counts()) return nullptr;
  return std::make_shared<const OwnCounts>(own_counts_of(plan.collective, shape.send_counts, shape.recv_counts));
}

OwnCounts own_counts_of(const Collective& what, std::span<const std::size_t> sends,
                        std::span<const std::size_t> receives) {
  const auto by_rank = [&](std::span<const std::size_t> counts) {
    std::vector<std::uint64_t> all(what.size);
    if (counts.size() == all.size())
      std::ranges::copy(counts, all.begin());
    else if (!counts.empty())  // to or from the root alone
      all[what.root] = counts[0];
    return all;
  };
  return {by_rank(sends), by_rank(receives)};
}

void require_own_counts_suffice(const Call& call, const Topology& topology, const std::string& algorithm) {
  if (!call.own_counts() || !forwards(call.kind, algorithm)) return;
  std::string known;
  for (const std::string& name : algorithms_for(call.kind, topology))
    if (!forwards(call.kind, name)) known += " " + name;
  throw UsageError("algorithm '" + algorithm + "': forwards what other ranks are to get, and with send_counts and " +
                   "recv_counts no rank knows how much that is; these do not:" + known);
}

}  // namespace lanecast
