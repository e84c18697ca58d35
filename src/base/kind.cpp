// SPDX-License-Identifier: Apache-2.0
#include "base/kind.h"

namespace lanecast {
namespace {
constexpr std::string_view kKindNames[kKinds + 1] = {"all_gather", "reduce_scatter", "all_reduce",
                                                     "broadcast",  "reduce",         "gather",
                                                     "scatter",    "all_to_all",     "composition"};
}

std::string_view name_of(Kind kind) { return kKindNames[static_cast<int>(kind)]; }

std::optional<Kind> kind_from(std::string_view name) {
  for (const Kind kind : kAllKinds)
    if (name_of(kind) == name) return kind;
  return std::nullopt;
}

}  // namespace lanecast
