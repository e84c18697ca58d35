// SPDX-License-Identifier: Apache-2.0
// What a package brings along lies beside the library that this code is in.
#pragma once

#include <filesystem>
#include <vector>

namespace lanecast {

/// Where that library lies: the folder that the loader knows and, where a symbolic link is on the way, the real one.
/// Empty where the loader does not know.
std::vector<std::filesystem::path> own_folders();

}  // namespace lanecast
