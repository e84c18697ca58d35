// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/toolkit.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>

namespace lanecast::gpu {

std::vector<std::string> toolkit_folders(GpuVendor vendor) {
  const bool amd = vendor == GpuVendor::amd;
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(amd ? "/opt" : "/usr/local", ignored))
    if (entry.path().filename().string().starts_with(amd ? "rocm" : "cuda"))
      folders.push_back(entry.path() / (amd ? "lib" : "lib64"));
  std::sort(folders.begin(), folders.end(), std::greater<>());
  return folders;
}

}  // namespace lanecast::gpu
