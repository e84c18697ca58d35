// SPDX-License-Identifier: Apache-2.0
#include "base/user_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace lanecast {
namespace {

/// By the environment, else by the system's list of users; empty where neither knows.
std::filesystem::path home() {
  if (const char* const home = std::getenv("HOME"); home && *home) return home;
  std::array<char, 4096> names{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, names.data(), names.size(), &found) != 0 || !found) return {};
  return found->pw_dir;
}

}  // namespace

std::filesystem::path user_cache(std::string_view name) {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "lanecast" / name;
  const std::filesystem::path home_folder = home();
  return home_folder.empty() ? home_folder : home_folder / ".cache" / "lanecast" / name;
}

}  // namespace lanecast
