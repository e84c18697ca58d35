// SPDX-License-Identifier: Apache-2.0
// Chunks are slices of parts, and a cut of a chunk is no cut of the part. Where that would change what a composition
// means, its parts are cut beforehand.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/composition.h"

namespace lanecast {

struct Refined {
  std::shared_ptr<const Composition> composition;
  /// Of each part of it: a piece of a part of the original. Empty where both are the same.
  Pieces origins;

  /// Elements of each part of it, where the original's parts have these.
  std::vector<std::size_t> counts(std::span<const std::size_t> original) const;
};

/// Where some rank ends with different values in different pieces of a part, each piece becomes a part. Compositions
/// that treat all elements of a part alike, however they deal them out on the way, stay as they are.
Refined refine(const std::shared_ptr<const Composition>& composition);

}  // namespace lanecast
