// SPDX-License-Identifier: Apache-2.0
#include "base/own_folders.h"

#include <dlfcn.h>

#include <system_error>

namespace lanecast {

std::vector<std::filesystem::path> own_folders() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&own_folders), &own) == 0) return {};
  const std::filesystem::path known = own.dli_fname;
  std::error_code missing;
  const std::filesystem::path real = std::filesystem::canonical(known, missing);
  std::vector<std::filesystem::path> folders;
  // Of a program the loader may know no more than its name, and the current folder is anybody's.
  if (known.is_absolute()) folders.push_back(known.parent_path());
  if (!missing && real != known) folders.push_back(real.parent_path());
  return folders;
}

}  // namespace lanecast
