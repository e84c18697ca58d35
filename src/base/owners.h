// SPDX-License-Identifier: Apache-2.0
// Who may write to a file: this user and root, or somebody else too.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace lanecast {

/// Who else than this user and root can have written what has this status, as a sentence that names the path; empty:
/// nobody. The group of root, and a group that holds this user alone, are nobody else; nor is anybody in a folder
/// whose entries only their owners can move (sticky, as /tmp).
std::string strangers_with(const struct stat& status, const std::filesystem::path& path);

/// This user's home folder by the system's list of users; empty where it knows none.
std::filesystem::path listed_home();

}  // namespace lanecast
