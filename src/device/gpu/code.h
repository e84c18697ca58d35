// SPDX-License-Identifier: Apache-2.0
// Machine code of the library's kernels, compiled once per machine and kept.
#pragma once

#include <string>
#include <vector>

namespace lanecast::gpu {

/// For devices of this capability (90 is 9.0): from the folder of the cache, else compiled by NVRTC and written there.
/// Of several processes one compiles while the others wait for it.
///
/// library_folders: where NVRTC may lie beside the loader's path. cache_folder: need not exist; empty: keep nothing.
/// Throws UsageError where there is no NVRTC, or none that knows this capability; InternalError with the compiler's log
/// for a source that does not compile.
std::string machine_code(int capability, const std::vector<std::string>& library_folders,
                         const std::string& cache_folder);

}  // namespace lanecast::gpu
