// SPDX-License-Identifier: Apache-2.0
#include "base/bootstrap.h"

#include <algorithm>
#include <cstdint>

namespace lanecast {

std::string Bootstrap::name_of(int rank) const { return "rank " + std::to_string(known_as ? (*known_as)[rank] : rank); }

std::vector<std::string> Bootstrap::all_gather_strings(const std::string& mine) const {
  std::uint64_t bytes = mine.size();
  std::vector<std::uint64_t> lengths(size);
  all_gather(&bytes, lengths.data(), sizeof bytes);
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> strings(size);
  if (longest == 0) return strings;
  std::string padded = mine;
  padded.resize(longest);
  std::string all(longest * size, '\0');
  all_gather(padded.data(), all.data(), longest);
  for (int r = 0; r < size; ++r) strings[r] = all.substr(r * longest, lengths[r]);
  return strings;
}

void Bootstrap::barrier() const {
  std::uint8_t token = 0;
  std::vector<std::uint8_t> tokens(size);
  all_gather(&token, tokens.data(), 1);
}

}  // namespace lanecast
