// SPDX-License-Identifier: Apache-2.0
// What a rank brings and expects in a call in which each rank knows its own counts only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/request/call.h"
#include "topology/topology.h"

namespace lanecast {

struct Plan;
struct Shape;

/// By rank, in elements.
struct OwnCounts {
  std::vector<std::uint64_t> gives, takes;
};

/// Null where the counts are equal on all ranks.
std::shared_ptr<const OwnCounts> own_counts_of(const Plan& plan, const Shape& shape);
/// sends, receives: of the parts that this rank brings and ends with.
OwnCounts own_counts_of(const Collective& what, std::span<const std::size_t> sends,
                        std::span<const std::size_t> receives);

/// Throws UsageError where the call's counts do not suffice for an algorithm that forwards.
void require_own_counts_suffice(const Call& call, const Topology& topology, const std::string& algorithm);

}  // namespace lanecast
