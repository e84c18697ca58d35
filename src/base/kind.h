// SPDX-License-Identifier: Apache-2.0
// The collectives by name: what a communicator calls, and what a library below can run as a whole on a subgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lanecast {

enum class Kind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  composition,  // of the user's own; no library runs it
};
inline constexpr int kKinds = 8;  // that have a name of their own
inline constexpr Kind kAllKinds[kKinds] = {Kind::all_gather, Kind::reduce_scatter, Kind::all_reduce, Kind::broadcast,
                                           Kind::reduce,     Kind::gather,         Kind::scatter,    Kind::all_to_all};

std::string_view name_of(Kind kind);
std::optional<Kind> kind_from(std::string_view name);

/// Does one rank alone bring, or end with, the data?
inline bool has_root(Kind kind) { return kind >= Kind::broadcast && kind <= Kind::scatter; }
/// Does every rank's result have a share in its own input's memory, so that the two may be one buffer?
inline bool may_be_in_place(Kind kind) { return kind != Kind::all_to_all; }
/// Does the result hold sums of what the ranks bring? A composition's primitives say it themselves.
inline bool reduces(Kind kind) {
  return kind == Kind::reduce_scatter || kind == Kind::all_reduce || kind == Kind::reduce;
}
/// Likewise, as far as the kind alone says.
inline bool may_reduce(Kind kind) { return reduces(kind) || kind == Kind::composition; }
/// Do ranks send the same bytes to several others, as far as the kind alone says?
inline bool may_multiply(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::composition;
}

}  // namespace lanecast
