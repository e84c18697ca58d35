// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/libraries.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/own_folders.h"
#include "transport/ucx/ucp.h"

namespace lanecast::ucx {
namespace {

namespace fs = std::filesystem;

/// UCX looks for its modules in a folder beside itself, or where it is told to.
Library described(const fs::path& path) {
  std::error_code unreadable;
  std::vector<fs::path> folders{path.parent_path() / "ucx", fs::canonical(path, unreadable).parent_path() / "ucx"};
  if (const char* told = std::getenv("UCX_MODULE_DIR")) folders = {told};
  const auto has = [&](const char* module) {
    return std::ranges::any_of(folders, [&](const fs::path& folder) {
      std::error_code none;
      return fs::exists(folder / module, none) || fs::exists(folder / (std::string(module) + ".0"), none);
    });
  };
  return {path, has("libuct_cuda.so"), has("libuct_rocm.so")};
}

}  // namespace

std::vector<std::string> wheel_folders() {
  std::vector<std::string> folders;
  for (const fs::path& own : own_folders()) {
    const fs::path packages = own.parent_path();
    folders.push_back(packages / "libucx" / "lib");
    folders.push_back(packages.parent_path().parent_path() / "mpich");
  }
  return folders;
}

std::vector<Library> libraries(const std::string& in_use) {
  std::vector<Library> found{described(in_use)};
  for (const fs::path folder : wheel_folders()) {
    const fs::path path = folder / kLibraryName;
    std::error_code none;
    if (fs::exists(path, none) && !fs::equivalent(path, in_use, none)) found.push_back(described(path));
  }
  return found;
}

std::string to_take(GpuVendor vendor, bool has_lanes) {
  const auto knows = [&](const Library& each) { return vendor == GpuVendor::nvidia ? each.cuda : each.rocm; };
  const std::vector<Library> all = libraries(Ucp::loaded().path());
  std::string text =
      has_lanes ? "it with LANECAST_UCX_LANES=0, since lanes are for networks that need the host's memory" : "";
  if (knows(all.front())) return text;
  const auto other = std::ranges::find_if(all, knows);
  text += std::string(text.empty() ? "it with " : ", and with ") +
          (other != all.end() ? "LANECAST_UCX_LIBRARY=" + other->path + ", which has a module for it"
                              : std::string("a UCX that has a module for it, named in LANECAST_UCX_LIBRARY"));
  return text + "; " + all.front().path + " has none";
}

}  // namespace lanecast::ucx
