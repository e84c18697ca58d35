// SPDX-License-Identifier: Apache-2.0
#include "base/group_kind.h"

namespace lanecast {

std::string_view name_of(GroupKind kind) {
  constexpr std::string_view kNames[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast",
                                         "reduce",     "gather",         "scatter",    "all_to_all"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace lanecast
