// SPDX-License-Identifier: Apache-2.0
// Collectives that a library below can run as a whole on a subgroup.
#pragma once

#include <cstdint>

namespace lanecast {

enum class GroupKind : std::uint8_t { all_gather, reduce_scatter, all_reduce };

}  // namespace lanecast
