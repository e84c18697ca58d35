// SPDX-License-Identifier: Apache-2.0
// A hash of numbers in a row: the same in every process, so that ranks can compare what they hold by one number.
#pragma once

#include <cstdint>

namespace lanecast {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // finaliser of SplitMix64 over the sum
  hash = (hash ^ value) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

}  // namespace lanecast
