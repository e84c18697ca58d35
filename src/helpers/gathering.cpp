// SPDX-License-Identifier: Apache-2.0
#include "helpers/gathering.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>

namespace lanecast::helpers {
namespace {

/// Of so many bytes from each rank.
void all_gather(Communicator& core, const void* in, void* out, std::span<const std::size_t> counts) {
  Call call;
  call.kind = Kind::all_gather;
  call.in = in;
  call.out = out;
  call.dtype = DType::uint8;
  call.counts = counts;
  call.count = counts[static_cast<std::size_t>(core.rank())];
  core.run(call, core.options().interrupt, BesideOthers{});
}

}  // namespace

std::vector<nlohmann::json> gather(Communicator& core, const nlohmann::json& mine) {
  const std::string text = mine.dump();
  const std::size_t size = text.size();
  std::vector<std::size_t> sizes(static_cast<std::size_t>(core.size()), sizeof size);
  const std::vector<std::size_t> words = sizes;
  all_gather(core, &size, sizes.data(), words);
  std::string whole(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  all_gather(core, text.data(), whole.data(), sizes);
  std::vector<nlohmann::json> found;
  std::size_t begin = 0;
  for (const std::size_t length : sizes) {
    found.push_back(nlohmann::json::parse(whole.substr(begin, length)));
    begin += length;
  }
  return found;
}

}  // namespace lanecast::helpers
