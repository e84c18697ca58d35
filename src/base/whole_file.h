// SPDX-License-Identifier: Apache-2.0
// A file that is written whole or not at all.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace lanecast {

/// Readers see the old file or the new one, never half of it, and nothing is written through a link that somebody has
/// laid in the folder. `mode` is less what the process's umask takes away. Returns 0 or the error's number, and then
/// leaves nothing behind.
int write_whole(const std::filesystem::path& path, std::string_view content, mode_t mode);

}  // namespace lanecast
