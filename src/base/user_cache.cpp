// SPDX-License-Identifier: Apache-2.0
#include "base/user_cache.h"

#include <cstdlib>

namespace lanecast {

std::filesystem::path user_cache(std::string_view name) {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  if (cache && *cache) return std::filesystem::path(cache) / "lanecast" / name;
  return home && *home ? std::filesystem::path(home) / ".cache" / "lanecast" / name : std::filesystem::path();
}

}  // namespace lanecast
