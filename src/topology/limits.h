// SPDX-License-Identifier: Apache-2.0
// How deep a topology may be.
#pragma once

namespace lanecast {

/// Levels above the ranks: more than machines have. The names of hierarchical algorithms, one part a level, multiply
/// with each.
inline constexpr int kMostLevels = 7;

}  // namespace lanecast
