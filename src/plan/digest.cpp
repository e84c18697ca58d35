// SPDX-License-Identifier: Apache-2.0
// One number for a whole composition, by which ranks find out that they have compiled different ones.
#include "base/mix.h"
#include "plan/composition.h"

namespace lanecast {
namespace {

std::uint64_t mix(std::uint64_t hash, Fraction f) {
  return lanecast::mix(hash,
                       (std::uint64_t{static_cast<std::uint32_t>(f.num)} << 32) | static_cast<std::uint32_t>(f.den));
}

std::uint64_t mix(std::uint64_t hash, PartRange parts) {
  hash = lanecast::mix(hash, static_cast<std::uint64_t>(parts.count));
  for (std::int32_t k = 0; k < parts.count; ++k) hash = lanecast::mix(hash, static_cast<std::uint64_t>(parts[k]));
  return hash;
}

}  // namespace

std::uint64_t Composition::digest() const {
  std::uint64_t hash = lanecast::mix(static_cast<std::uint64_t>(size()), static_cast<std::uint64_t>(parts_));
  for (int r = 0; r < size(); ++r) hash = mix(mix(hash, inputs_[r]), outputs_[r]);
  std::uint64_t sum = 0;  // of the primitives, in whatever order they come
  std::uint64_t ranks = 0;
  std::uint32_t known = UINT32_MAX;  // the first of the leaves that `ranks` stands for
  for (const Primitive& p : primitives_) {
    if (p.leaves.first != known) {
      known = p.leaves.first;
      ranks = 0;
      for (const int leaf : leaves(p)) ranks = lanecast::mix(ranks, static_cast<std::uint64_t>(leaf));
    }
    std::uint64_t one = lanecast::mix(ranks, static_cast<std::uint64_t>(p.root));
    one = lanecast::mix(one, static_cast<std::uint64_t>(p.step) * 16 + static_cast<std::uint64_t>(p.op) * 2 +
                                 static_cast<std::uint64_t>(p.kind));
    for (const Piece& piece : pieces(p))
      one = mix(mix(lanecast::mix(one, static_cast<std::uint64_t>(piece.part)), piece.lo), piece.hi);
    sum += one;
  }
  return lanecast::mix(hash, sum);
}

}  // namespace lanecast
