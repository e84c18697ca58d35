// SPDX-License-Identifier: Apache-2.0
#include "plan/collective.h"

#include "plan/block.h"

namespace lanecast {
namespace {
constexpr std::string_view kNames[] = {"all_gather", "reduce_scatter", "all_reduce"};
}

std::string_view name_of(Kind kind) { return kNames[static_cast<int>(kind)]; }

std::optional<Kind> kind_from(std::string_view name) {
  for (int k = 0; k < 3; ++k)
    if (kNames[k] == name) return static_cast<Kind>(k);
  return std::nullopt;
}

PartRange Collective::inputs(int rank) const {
  return kind == Kind::all_gather ? PartRange{rank, 1} : PartRange{0, parts()};
}

PartRange Collective::outputs(int rank) const {
  return kind == Kind::reduce_scatter ? PartRange{rank, 1} : PartRange{0, parts()};
}

PartRange Collective::contributors(std::int32_t part) const {
  return kind == Kind::all_gather ? PartRange{part, 1} : PartRange{0, size};
}

std::int32_t Collective::home(int rank, std::int32_t space, std::int32_t part) const {
  return in_place && space == kOut && inputs(rank).has(part) ? kIn : space;
}

}  // namespace lanecast
