// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/nccl.h"

#include <array>

#include "base/error.h"
#include "base/shared_library.h"
#include "device/gpu/toolkit.h"

namespace lanecast::gpu {
namespace {

constexpr std::array kNames{"libnccl.so.2"};

}  // namespace

NcclLibrary find_nccl(const std::vector<std::string>& folders) {
  const SharedLibrary library = SharedLibrary::open({
      .what = "NCCL",
      .variable = "LANECAST_NCCL_LIBRARY",
      .names = kNames,
      .folders = folders,
      .vendor_folders = toolkit_folders(),
      .advice = "Install it (pip install nvidia-nccl-cu13; PyTorch for CUDA brings it along), load your site's module",
  });
  int (*const get_version)(int*) = library.required("ncclGetVersion");
  int code = 0;  // 22809 is 2.28.9
  if (get_version(&code) != 0) throw TransportError("ncclGetVersion failed in " + library.path());
  return {library.path(),
          std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100)};
}

}  // namespace lanecast::gpu
