// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/toolkit.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>

namespace lanecast::gpu {

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/local", ignored))
    if (entry.path().filename().string().starts_with("cuda")) folders.push_back(entry.path() / "lib64");
  std::sort(folders.begin(), folders.end(), std::greater<>());
  return folders;
}

}  // namespace lanecast::gpu
