// SPDX-License-Identifier: Apache-2.0
// Collectives that a library below can run as a whole on a subgroup.
#pragma once

#include <cstdint>
#include <string_view>

namespace lanecast {

enum class GroupKind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
};
inline constexpr int kGroupKinds = 8;

std::string_view name_of(GroupKind kind);

/// Does the result hold sums of what the members bring?
inline bool reduces(GroupKind kind) {
  return kind == GroupKind::reduce_scatter || kind == GroupKind::all_reduce || kind == GroupKind::reduce;
}

}  // namespace lanecast
