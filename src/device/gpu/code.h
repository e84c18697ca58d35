// SPDX-License-Identifier: Apache-2.0
// Code of the library's kernels, compiled once per machine and kept.
#pragma once

#include <string>
#include <vector>

#include "device/gpu/modules.h"

namespace lanecast::gpu {

struct CodePlaces {
  std::vector<std::string> library_folders;  // where NVRTC may lie beside the loader's path
  std::string cache_folder;                  // need not exist; empty: nothing is kept
};

/// All that code of a module for a target is made from, as lines of text, but for the compiler's version. target: an
/// architecture ("sm_90", "gfx90a"), or PTX of one ("compute_100").
std::string recipe(const KernelModule& module, const std::string& target);

/// From the folder of the cache, else compiled by NVRTC or hipRTC and written there. Of several processes one compiles
/// while the others wait for it.
///
/// Throws UsageError where there is no such compiler, or none that knows this target; InternalError with its log for a
/// source that does not compile.
std::string machine_code(const KernelModule& module, const std::string& target, const CodePlaces& places);

/// Would machine_code() compile it? Throws UsageError where there is no compiler.
bool is_cached(const KernelModule& module, const std::string& target, const CodePlaces& places);

}  // namespace lanecast::gpu
