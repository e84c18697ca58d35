// SPDX-License-Identifier: Apache-2.0
#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace lanecast {
namespace {

/// The file behind a handle: the loader may have found it by a bare name.
std::string path_of(void* handle) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 && map != nullptr ? map->l_name : "";
}

/// Opens the first that is there, and remembers what was wrong with those before.
class Attempts {
 public:
  void* by_name(const std::string& name) {
    void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) report_ += std::string("\n  ") + dlerror();
    return handle;
  }

  void* in(const std::vector<std::string>& folders, std::span<const char* const> names) {
    for (const std::string& folder : folders) {
      for (const char* name : names) {
        const std::filesystem::path file = std::filesystem::path(folder) / name;
        std::error_code ignored;
        if (!std::filesystem::exists(file, ignored)) continue;
        if (void* handle = by_name(file)) return handle;
      }
      looked_in_ += "\n  none in " + folder;
    }
    return nullptr;
  }

  std::string report() const { return report_ + looked_in_; }

 private:
  std::string report_, looked_in_;
};

void* find(const LibrarySearch& search, Attempts& attempts) {
  if (const char* file = std::getenv(search.variable); file != nullptr && *file != '\0') {
    if (void* handle = attempts.by_name(file)) return handle;
    throw UsageError(std::string(search.variable) + " names no usable library:" + attempts.report());
  }
  if (void* handle = attempts.in(search.folders, search.names)) return handle;
  for (const char* name : search.names)
    if (void* handle = attempts.by_name(name)) return handle;
  return attempts.in(search.vendor_folders, search.names);
}

}  // namespace

SharedLibrary::SharedLibrary(void* handle, const char* what) : handle_(handle), path_(path_of(handle)), what_(what) {}

SharedLibrary SharedLibrary::open(const LibrarySearch& search) {
  Attempts attempts;
  if (void* handle = find(search, attempts)) return {handle, search.what};
  throw UsageError(std::string("no ") + search.what + ":" + attempts.report() + "\n" + search.advice + ", or set " +
                   search.variable + " to the path of " + search.names.front());
}

SharedLibrary::Symbol SharedLibrary::required(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr)
    throw UsageError(std::string(what_) + ", " + path_ + ", has no " + name + ": it is too old; update it");
  return Symbol(address);
}

SharedLibrary::Symbol SharedLibrary::optional(const char* name) const { return Symbol(dlsym(handle_, name)); }

}  // namespace lanecast
