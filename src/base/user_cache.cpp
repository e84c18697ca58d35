// SPDX-License-Identifier: Apache-2.0
#include "base/user_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/owners.h"

namespace lanecast {
namespace {

namespace fs = std::filesystem;

/// What a variable names. Empty where it is not set, or no absolute path: such a one would be another folder in each
/// working directory, so the XDG Base Directory Specification has it ignored.
fs::path folder_in(const char* variable) {
  const char* const value = std::getenv(variable);
  fs::path folder = value ? value : "";
  return folder.is_absolute() ? folder : fs::path();
}

}  // namespace

fs::path user_cache(std::string_view name) {
  if (const fs::path cache = folder_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "lanecast" / name;
  fs::path home = folder_in("HOME");
  if (home.empty()) home = listed_home();
  return home.empty() ? home : home / ".cache" / "lanecast" / name;
}

fs::path temporary_cache(std::string_view name) {
  const fs::path named = folder_in("TMPDIR");
  return (named.empty() ? fs::path("/tmp") : named) / ("lanecast-" + std::to_string(geteuid())) / name;
}

}  // namespace lanecast
