// SPDX-License-Identifier: Apache-2.0
#include "plan/collective.h"

#include <tuple>

#include "plan/composition.h"

namespace lanecast {

bool operator==(const Collective& a, const Collective& b) {
  const auto plain = [](const Collective& c) { return std::tuple(c.kind, c.size, c.in_place, c.root, c.reproducible); };
  if (plain(a) != plain(b) || !a.composition != !b.composition) return false;
  return a.composition == b.composition || a.composition->digest() == b.composition->digest();
}

std::int32_t Collective::parts() const {
  if (composition) return composition->parts();
  if (kind == Kind::all_to_all) return size * size;
  const bool whole = kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce;
  return whole ? 1 : size;
}

PartRange Collective::inputs(int rank) const {
  if (composition) return composition->inputs(rank);
  switch (kind) {
    case Kind::all_gather:
    case Kind::gather:
      return {rank, 1};
    case Kind::broadcast:
    case Kind::scatter:
      return rank == root ? PartRange{0, parts()} : PartRange{};
    case Kind::all_to_all:
      return {rank * size, size};
    default:
      return {0, parts()};
  }
}

PartRange Collective::outputs(int rank) const {
  if (composition) return composition->outputs(rank);
  switch (kind) {
    case Kind::reduce_scatter:
    case Kind::scatter:
      return {rank, 1};
    case Kind::reduce:
    case Kind::gather:
      return rank == root ? PartRange{0, parts()} : PartRange{};
    case Kind::all_to_all:
      return {rank, size, size};
    default:
      return {0, parts()};
  }
}

PartRange Collective::contributors(std::int32_t part) const {
  switch (kind) {
    case Kind::all_gather:
    case Kind::gather:
      return {part, 1};
    case Kind::broadcast:
    case Kind::scatter:
      return {root, 1};
    case Kind::all_to_all:
      return {part / size, 1};
    default:
      return {0, size};
  }
}

std::int32_t Collective::home(int rank, std::int32_t space, std::int32_t part) const {
  return in_place && space == kOut && inputs(rank).has(part) ? kIn : space;
}

}  // namespace lanecast
