// SPDX-License-Identifier: Apache-2.0
// What a call says of itself, to peers and to people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/bound/own_counts.h"

namespace lanecast {

struct Shape;
struct Plan;

/// What has to be equal on all ranks: the collective and its arguments, and the algorithm and chunks that decide who
/// sends what to whom. Not the buffers, nor whether the call is in-place.
struct Signature {
  std::string text;  // "all_reduce of 1000 float32, sum, by ring in 4 chunks"
  std::uint64_t hash = 0;
  std::shared_ptr<const OwnCounts> own;  // no part of it: these are compared pair by pair
};
/// Bytes of the vector that all ranks share in; 0 where each rank knows its own counts only.
std::size_t full_bytes(const Plan& plan, const Shape& shape);
Signature signature_of(const Plan& plan, const Shape& shape);
/// A rank whose memory is a CPU's makes another call.
Signature signature_on_gpus(const Plan& plan, const Shape& shape);

}  // namespace lanecast
