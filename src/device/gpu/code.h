// SPDX-License-Identifier: Apache-2.0
// Machine code of the library's kernels, compiled once per machine and kept.
#pragma once

#include <string>
#include <vector>

namespace lanecast::gpu {

/// For devices of this architecture ("sm_90", "gfx90a"): from the folder of the cache, else compiled by NVRTC or hipRTC
/// and written there. Of several processes one compiles while the others wait for it.
///
/// library_folders: where NVRTC may lie beside the loader's path. cache_folder: need not exist; empty: keep nothing.
/// Throws UsageError where there is no such compiler, or none that knows this architecture; InternalError with its log
/// for a source that does not compile.
std::string machine_code(const std::string& architecture, const std::vector<std::string>& library_folders,
                         const std::string& cache_folder);

}  // namespace lanecast::gpu
