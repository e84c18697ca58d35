// SPDX-License-Identifier: Apache-2.0
// NCCL, or AMD's RCCL, as far as one must know it to say which would be used.
#pragma once

#include <string>
#include <vector>

namespace lanecast::gpu {

struct NcclLibrary {
  std::string path;
  std::string version;  // "2.28.9"
};

/// folders: looked in before the loader's path. Throws UsageError that says what is missing and what to do.
NcclLibrary find_nccl(const std::vector<std::string>& folders);

}  // namespace lanecast::gpu
