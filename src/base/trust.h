// SPDX-License-Identifier: Apache-2.0
// The door for what is run or believed because it lies in a folder: only this user and root can have put it there.
// Python's door, lanecast.cache, leads through this one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lanecast {

/// Where a file or folder lies, links followed; empty where there is none. Throws UsageError that names who else may
/// write to it, to a folder on the way to it, or may turn a link on that way.
///
/// The way is judged from / on, each step before the next one is taken, so nobody else can change it between this call
/// and the use of the path. What lies above this user's listed home is the site's affair and not judged.
std::filesystem::path trusted_path(const std::filesystem::path& path);

/// What a file holds; nothing where there is none. Throws as trusted_path(), and for what is no file or cannot be read.
std::optional<std::string> trusted_text(const std::filesystem::path& path);

/// Makes a folder, and those above it that are missing, for this user alone; one that is there stays as it is. Throws
/// UsageError with the folder and the reason.
void make_folders(const std::filesystem::path& folder);

/// The same. Throws as well where the folder is not to be trusted, or cannot be written to.
void make_private(const std::filesystem::path& folder);

}  // namespace lanecast
