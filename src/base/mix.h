// SPDX-License-Identifier: Apache-2.0
// A hash of numbers or bytes in a row: the same in every process, so that ranks can compare what they hold by one
// number.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace lanecast {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // finaliser of SplitMix64 over the sum
  hash = (hash ^ value) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

inline std::uint64_t mix(std::uint64_t hash, std::string_view bytes) {  // the length keeps trailing zeros apart
  hash = mix(hash, bytes.size());
  for (std::size_t k = 0; k < bytes.size(); k += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    const std::string_view piece = bytes.substr(k, sizeof word);
    std::memcpy(&word, piece.data(), piece.size());
    hash = mix(hash, word);
  }
  return hash;
}

/// All bits of a hash in 16.
inline std::uint16_t folded(std::uint64_t hash) {
  hash ^= hash >> 32;
  return static_cast<std::uint16_t>(hash ^ hash >> 16);
}

}  // namespace lanecast
