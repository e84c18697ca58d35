// SPDX-License-Identifier: Apache-2.0
#include "runtime/own_counts.h"

#include "runtime/layout.h"

namespace lanecast {

std::shared_ptr<const OwnCounts> own_counts_of(const Plan& plan, const Shape& shape) {
  if (!shape.own_counts()) return nullptr;
  const Collective& what = plan.collective;
  const auto by_rank = [&](const std::vector<std::size_t>& counts) {
    std::vector<std::uint64_t> all(what.size);
    if (counts.size() == all.size())
      std::ranges::copy(counts, all.begin());
    else if (!counts.empty())  // to or from the root alone
      all[what.root] = counts[0];
    return all;
  };
  return std::make_shared<const OwnCounts>(by_rank(shape.send_counts), by_rank(shape.recv_counts));
}

}  // namespace lanecast
