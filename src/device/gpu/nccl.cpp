// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/nccl.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/shared_library.h"
#include "device/gpu/toolkit.h"

namespace lanecast::gpu {
namespace {

constexpr std::array kNcclNames{"libnccl.so.2", "librccl.so.1"};

std::vector<std::string> vendor_folders() {
  std::vector<std::string> all = toolkit_folders(GpuVendor::nvidia);
  for (std::string& folder : toolkit_folders(GpuVendor::amd)) all.push_back(std::move(folder));
  return all;
}

}  // namespace

std::shared_ptr<const Nccl> Nccl::open(const std::vector<std::string>& folders) {
  return std::make_shared<const Nccl>(SharedLibrary::open({
      .what = "NCCL or RCCL",
      .variable = "LANECAST_NCCL_LIBRARY",
      .names = kNcclNames,
      .folders = folders,
      .vendor_folders = vendor_folders(),
      .advice = "Install it (pip install nvidia-nccl-cu13; PyTorch for CUDA brings it along), load your site's module",
  }));
}

int Nccl::version() const {
  int code = 0;
  if (GetVersion(&code) != kNcclSuccess) throw TransportError("ncclGetVersion failed in " + path());
  return code;
}

std::string text_of_nccl_version(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

NcclLibrary find_nccl(const std::vector<std::string>& folders) {
  const auto library = Nccl::open(folders);
  return {library->path(), text_of_nccl_version(library->version())};
}

}  // namespace lanecast::gpu
