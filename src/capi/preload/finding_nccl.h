// SPDX-License-Identifier: Apache-2.0
// Which of the libraries that are loaded, or lie around, is the real NCCL: this one has its names, and may have its
// place.
#pragma once

#include <string>
#include <vector>

namespace lanecast::preload {

struct NcclFile {
  void* handle = nullptr;  // null: there is none
  std::string path;
  std::vector<std::string> others;  // that have NCCL's names as well, and are not used
  std::string report;               // what was tried, where there is none
};

NcclFile find_nccl();

}  // namespace lanecast::preload
