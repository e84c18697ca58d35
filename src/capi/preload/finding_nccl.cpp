// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/finding_nccl.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/own_folders.h"
#include "device/gpu/toolkit.h"

namespace lanecast::preload {
namespace {

constexpr const char* kVariable = "LANECAST_NCCL_LIBRARY";
constexpr const char* kFile = "libnccl.so.2";
constexpr const char* kFunction = "ncclGetVersion";

/// The file that holds an address.
std::string file_of(const void* address) {
  Dl_info info{};
  return address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string own_file() { return file_of(reinterpret_cast<const void*>(&find_nccl)); }

bool is_named_as_nccl(const std::string& path) {
  return std::filesystem::path(path).filename().string().starts_with("libnccl");
}

std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  // No library is opened here: the loader holds its lock.
  const auto keep = [](dl_phdr_info* info, std::size_t, void* into) {
    if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0')
      static_cast<std::vector<std::string>*>(into)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(keep, &files);
  return files;
}

/// Where a loaded library, or one that it needs, has NCCL's functions: never this library.
std::string nccl_behind(const std::string& loaded) {
  void* const handle = dlopen(loaded.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const std::string file = file_of(dlsym(handle, kFunction));
  dlclose(handle);
  return file == own_file() ? std::string() : file;
}

/// What has NCCL's name comes first.
std::vector<std::string> all_loaded() {
  std::vector<std::string> named, others;
  for (const std::string& loaded : loaded_files()) {
    const std::string file = nccl_behind(loaded);
    std::vector<std::string>& kind = is_named_as_nccl(file) ? named : others;
    if (!file.empty() && std::ranges::find(kind, file) == kind.end()) kind.push_back(file);
  }
  named.insert(named.end(), others.begin(), others.end());
  return named;
}

/// Of a Python environment that has this library as well, of the loader's path, and of CUDA's installations.
std::vector<std::string> places() {
  std::vector<std::string> files;
  for (const std::filesystem::path& own : own_folders()) files.push_back(own.parent_path() / "nvidia/nccl/lib" / kFile);
  files.emplace_back(kFile);
  for (const std::string& folder : gpu::toolkit_folders(GpuVendor::nvidia))
    files.push_back(std::filesystem::path(folder) / kFile);
  return files;
}

void* opened(const std::string& file, NcclFile& found) {
  void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    found.report += std::string("\n  ") + dlerror();
    return nullptr;
  }
  const std::string holds = file_of(dlsym(handle, kFunction));
  if (!holds.empty() && holds != own_file()) {
    found.path = holds;
    return handle;
  }
  found.report += "\n  " + file + (holds.empty() ? ": not NCCL" : ": this library itself");
  return nullptr;
}

}  // namespace

NcclFile find_nccl() {
  NcclFile found;
  if (const char* file = std::getenv(kVariable); file != nullptr && *file != '\0') {
    found.handle = opened(file, found);
    return found;
  }
  std::vector<std::string> candidates = all_loaded();
  if (candidates.size() > 1) found.others.assign(candidates.begin() + 1, candidates.end());
  if (candidates.empty()) candidates = places();
  for (const std::string& file : candidates) {
    found.handle = opened(file, found);
    if (found.handle != nullptr) break;
  }
  return found;
}

}  // namespace lanecast::preload
