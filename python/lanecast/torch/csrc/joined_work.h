// SPDX-License-Identifier: Apache-2.0
// Several works as one: what was called between startCoalescing() and endCoalescing().
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace lanecast_torch {

/// Done when all of its members are.
c10::intrusive_ptr<c10d::Work> join(int rank, const std::vector<c10::intrusive_ptr<c10d::Work>>& members);

}  // namespace lanecast_torch
