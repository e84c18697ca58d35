// SPDX-License-Identifier: Apache-2.0
// Where this user's caches lie.
#pragma once

#include <filesystem>
#include <string_view>

namespace lanecast {

/// $XDG_CACHE_HOME/lanecast/NAME, or ~/.cache/lanecast/NAME; need not exist yet. Empty for a user without a home.
std::filesystem::path user_cache(std::string_view name);

/// $TMPDIR/lanecast-UID/NAME, or in /tmp: for what can be made again, where nothing can be kept in the user's cache.
std::filesystem::path temporary_cache(std::string_view name);

}  // namespace lanecast
