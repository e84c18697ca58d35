// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/shim/shims.h"

#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

#include "base/error.h"
#include "transport/mpi/shim/abi_mpich.h"
#include "transport/mpi/shim/abi_open_mpi.h"
#include "transport/mpi/shim/abi_standard.h"
#include "transport/mpi/shim/shim.h"
#ifdef LANECAST_MPI_HEADER
#include "transport/mpi/shim/abi_linked.h"
#endif

namespace lanecast::mpi {
namespace {

template <class Function>
void find(void* library, const std::string& name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name.c_str()));
}

/// A call's name, and where its address belongs: a table, since code for each name would be long, and three times.
struct Sought {
  const char* name;
  void* function;
};

/// Names that the library lacks, each behind a blank.
std::string look_up(void* library, std::initializer_list<Sought> all, const char* suffix = "") {
  std::string missing;
  for (const Sought& each : all) {
    const std::string name = std::string("MPI_") + each.name + suffix;
    const void* const address = dlsym(library, name.c_str());
    std::memcpy(each.function, static_cast<const void*>(&address), sizeof address);
    if (address == nullptr) missing += " " + name;
  }
  return missing;
}

template <class Types>
Functions<Types> find_functions(void* library) {
  Functions<Types> functions;
  std::string missing;
#define LANECAST_MPI_SOUGHT(name, ...) Sought{#name, static_cast<void*>(&table.name)},
  {
    auto& table = functions.calls;
    missing += look_up(library, {LANECAST_MPI_CALLS(LANECAST_MPI_SOUGHT)});
  }
  const auto counted = [&](auto& table, const char* suffix) {
    return look_up(library, {LANECAST_MPI_COUNTED_CALLS(LANECAST_MPI_SOUGHT)}, suffix);
  };
#undef LANECAST_MPI_SOUGHT
  missing += counted(functions.small, "");
  if (!counted(functions.large, "_c").empty()) functions.large = {};
  find(library, "MPI_Get_elements_x", functions.Get_elements_x);
  if (functions.Get_elements_x == nullptr) missing += " MPI_Get_elements_x";
  find(library, "MPIX_Query_cuda_support", functions.Query_cuda_support);
  find(library, "MPIX_Query_rocm_support", functions.Query_rocm_support);
  find(library, "MPIX_GPU_query_support", functions.GPU_query_support);
  if (!missing.empty()) throw TransportError("the MPI library lacks" + missing + "; MPI 3.0 or later is needed");
  return functions;
}

template <class Abi>
std::shared_ptr<MpiApi> open_shim(void* library, MpiLibrary description) {
  return std::make_shared<Shim<Abi>>(Binding<Abi>{Abi(library), find_functions<Abi>(library)}, std::move(description));
}

/// A library of the standard ABI says so itself; MPICH's own-ABI library answers -1.
bool has_standard_abi(void* library) {
  int (*get_abi_version)(int*, int*) = nullptr;
  find(library, "MPI_Abi_get_version", get_abi_version);
  int major = -1;
  int minor = -1;
  return get_abi_version != nullptr && get_abi_version(&major, &minor) == 0 && major >= 1;
}

bool has_mpich_abi(const std::string& version) {
  for (const char* family : {"MPICH", "Intel(R) MPI", "MVAPICH"})
    if (version.find(family) != std::string::npos) return true;
  return false;
}

/// The first clause of a version text that may have many lines, with runs of blanks made one.
std::string first_clause(const std::string& text) {
  std::string clause;
  for (const char c : text) {
    if (c == '\n' || c == ',' || c == '\0') break;
    const bool blank = c == ' ' || c == '\t';
    if (blank && (clause.empty() || clause.back() == ' ')) continue;
    clause += blank ? ' ' : c;
  }
  return clause;
}

}  // namespace

std::string version_of(void* library) {
  int (*get_library_version)(char*, int*) = nullptr;
  find(library, "MPI_Get_library_version", get_library_version);
  if (get_library_version == nullptr) return {};
  std::string text(8192, '\0');  // the greatest MPI_MAX_LIBRARY_VERSION_STRING
  int length = 0;
  get_library_version(text.data(), &length);
  return first_clause(text);
}

std::shared_ptr<MpiApi> make_shim(void* library, MpiLibrary description) {
  if (has_standard_abi(library)) return open_shim<StandardAbi>(library, std::move(description));
  if (dlsym(library, "ompi_mpi_comm_world") != nullptr) return open_shim<OpenMpiAbi>(library, std::move(description));
  if (has_mpich_abi(description.version)) return open_shim<MpichAbi>(library, std::move(description));
  throw TransportError(description.path + " (" + description.version +
                       ") has an ABI this library does not know: use Open MPI, an MPI of the MPICH ABI, or one of the "
                       "MPI-5 standard ABI (libmpi_abi.so)");
}

std::shared_ptr<MpiApi> make_linked_shim() {
#ifdef LANECAST_MPI_HEADER
  Binding<LinkedAbi> mpi{LinkedAbi(), linked_functions()};
  std::string version(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  mpi.functions.calls.Get_library_version(version.data(), &length);
  return std::make_shared<Shim<LinkedAbi>>(std::move(mpi), MpiLibrary{"linked", {}, first_clause(version)});
#else
  return nullptr;
#endif
}

}  // namespace lanecast::mpi
