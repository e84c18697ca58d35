// SPDX-License-Identifier: Apache-2.0
// What a collective promises: which parts a rank brings, which it ends with, and whose contributions they hold.
#pragma once

#include <cstdint>
#include <memory>

#include "base/kind.h"
#include "plan/part_range.h"

namespace lanecast {

class Composition;

constexpr int kMostExchanging = 46340;  // ranks of an all-to-all, whose pairs are numbered in 32 bits

struct Collective {
  Kind kind = Kind::all_reduce;
  int size = 1;           // ranks
  bool in_place = false;  // a part that a rank both brings and ends with lies at one address
  int root = 0;           // of those that have one
  /// The same bits whatever the algorithm: each sum is one reduction in rank order. What only moves has them anyway.
  bool reproducible = false;
  std::shared_ptr<const Composition> composition = nullptr;  // of Kind::composition

  /// The vector is one part where it is reduced or broadcast whole. Else rank r's share is part r, but for an
  /// all-to-all, where part s · size + d goes from rank s to rank d: a rank brings a row and ends with a column. A
  /// composition numbers its parts itself.
  std::int32_t parts() const;
  bool reduces() const { return lanecast::reduces(kind); }

  /// Parts that a rank brings, and those that it ends with, in the order in which they lie in its buffers. Neither need
  /// be all that it handles: what others bring may pass through its scratch memory.
  PartRange inputs(int rank) const;
  PartRange outputs(int rank) const;
  /// Ranks whose contributions the finished part holds, each exactly once. A composition has its Meaning instead.
  PartRange contributors(std::int32_t part) const;

  /// The space where a block really lies: an in-place output is the input's memory.
  std::int32_t home(int rank, std::int32_t space, std::int32_t part) const;

  friend bool operator==(const Collective& a, const Collective& b);
};

}  // namespace lanecast
