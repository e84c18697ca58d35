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
    case Kind::all_gather:
    case Kind::gather:
      return group.own[me];
    case Kind::broadcast:
    case Kind::scatter:
      return me == group.root ? everything(group) : Pieces{};
    case Kind::all_to_all:
      return joined_lists(group.own.begin(), group.own.begin() + static_cast<std::ptrdiff_t>(group.ranks.size()));
    default:
      return everything(group);
  }
}

Pieces gained_from(const Group& group, int rank) {
  const auto me = place_of(group, rank);
  switch (group.kind) {
    case Kind::reduce_scatter:
    case Kind::scatter:
      return group.own[me];
    case Kind::reduce:
    case Kind::gather:
      return me == group.root ? everything(group) : Pieces{};
    case Kind::broadcast:  // the root has it already
      return me == group.root ? Pieces{} : everything(group);
    case Kind::all_to_all:
      return joined_lists(group.own.begin() + static_cast<std::ptrdiff_t>(group.ranks.size()), group.own.end());
    default:
      return everything(group);
  }
}

}  // namespace lanecast
