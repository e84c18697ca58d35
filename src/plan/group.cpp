// SPDX-License-Identifier: Apache-2.0
// What each member of a group call brings and gets.
#include <algorithm>

#include "plan/plan.h"

namespace lanecast {
namespace {

using Lists = PieceLists::const_iterator;

Pieces joined_lists(Lists first, Lists last) {
  Pieces all;
  for (; first != last; ++first) all.insert(all.end(), first->begin(), first->end());
  return all;
}

Pieces everything(const Group& group) { return joined_lists(group.own.begin(), group.own.end()); }

std::ptrdiff_t place_of(const Group& group, int rank) {
  return std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin();
}

}  // namespace

Pieces brought_to(const Group& group, int rank) {
  const auto me = place_of(group, rank);
  switch (group.kind) {
    case GroupKind::all_gather:
    case GroupKind::gather:
      return group.own[me];
    case GroupKind::broadcast:
    case GroupKind::scatter:
      return me == group.root ? everything(group) : Pieces{};
    case GroupKind::all_to_all:
      return joined_lists(group.own.begin(), group.own.begin() + static_cast<std::ptrdiff_t>(group.ranks.size()));
    default:
      return everything(group);
  }
}

Pieces gained_from(const Group& group, int rank) {
  const auto me = place_of(group, rank);
  switch (group.kind) {
    case GroupKind::reduce_scatter:
    case GroupKind::scatter:
      return group.own[me];
    case GroupKind::reduce:
    case GroupKind::gather:
      return me == group.root ? everything(group) : Pieces{};
    case GroupKind::broadcast:  // the root has it already
      return me == group.root ? Pieces{} : everything(group);
    case GroupKind::all_to_all:
      return joined_lists(group.own.begin() + static_cast<std::ptrdiff_t>(group.ranks.size()), group.own.end());
    default:
      return everything(group);
  }
}

}  // namespace lanecast
