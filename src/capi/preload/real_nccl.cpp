// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/real_nccl.h"

#include <dlfcn.h>

#include <string_view>

#include "capi/preload/finding_nccl.h"
#include "capi/preload/telling.h"

namespace lanecast::preload {
namespace {

constexpr int kOldest = 21800;  // of the functions that the passing on needs, and of ncclConfig_t as it is read

/// For whatever signature: it looks at no argument. What returns a text instead has one of its own.
int absent() { return gpu::kNcclSuccess + 5; }  // ncclInvalidUsage
const char* absent_text(NcclComm) { return "there is no NCCL to ask: LANECAST_NCCL_LIBRARY names its file"; }

template <class Function>
void bind(const RealNccl& nccl, Function*& to, const char* name) {
  void* const found = nccl.handle == nullptr ? nullptr : dlsym(nccl.handle, name);
  to = found == nullptr ? reinterpret_cast<Function*>(reinterpret_cast<void (*)()>(&absent))
                        : reinterpret_cast<Function*>(found);
}

void bind_all(RealNccl& nccl) {
#define LANECAST_BIND(name) bind(nccl, nccl.name, "nccl" #name)
  LANECAST_BIND(GetVersion);
  LANECAST_BIND(CommInitRank);
  LANECAST_BIND(CommInitRankConfig);
  LANECAST_BIND(CommInitRankScalable);
  LANECAST_BIND(CommInitAll);
  LANECAST_BIND(CommSplit);
  LANECAST_BIND(CommShrink);
  LANECAST_BIND(CommGrow);
  LANECAST_BIND(CommFinalize);
  LANECAST_BIND(CommDestroy);
  LANECAST_BIND(CommAbort);
  LANECAST_BIND(CommRevoke);
  LANECAST_BIND(CommGetAsyncError);
  LANECAST_BIND(CommCount);
  LANECAST_BIND(CommUserRank);
  LANECAST_BIND(CommCuDevice);
  LANECAST_BIND(CommRegister);
  LANECAST_BIND(CommDeregister);
  LANECAST_BIND(CommWindowRegister);
  LANECAST_BIND(CommWindowDeregister);
  LANECAST_BIND(GroupStart);
  LANECAST_BIND(GroupEnd);
  LANECAST_BIND(AllReduce);
  LANECAST_BIND(AllGather);
  LANECAST_BIND(ReduceScatter);
  LANECAST_BIND(Broadcast);
  LANECAST_BIND(Reduce);
  LANECAST_BIND(AlltoAll);
  LANECAST_BIND(Gather);
  LANECAST_BIND(Scatter);
  LANECAST_BIND(Send);
  LANECAST_BIND(Recv);
#undef LANECAST_BIND
  void* const text = nccl.handle == nullptr ? nullptr : dlsym(nccl.handle, "ncclGetLastError");
  nccl.GetLastError = text == nullptr ? &absent_text : reinterpret_cast<decltype(nccl.GetLastError)>(text);
}

RealNccl opened() {
  const NcclFile found = find_nccl();
  RealNccl nccl{};
  nccl.handle = found.handle;
  nccl.path = found.path;
  bind_all(nccl);
  if (nccl.handle == nullptr) {
    nccl.too_old = "there is no NCCL";
    tell_always(
        "no NCCL is loaded, and none was found:" + found.report +
        "\nInstall it (pip install nvidia-nccl-cu12), or set LANECAST_NCCL_LIBRARY to the path of libnccl.so.2");
    return nccl;
  }
  nccl.GetVersion(&nccl.version);
  if (nccl.version < kOldest) {
    nccl.too_old = "NCCL in " + nccl.path + " is older than 2.18";
    tell_always(nccl.too_old + "; the program goes on by it alone");
  }
  for (const std::string& other : found.others)
    tell_always(other + " has NCCL's names as well; what Lanecast does not take goes to " + nccl.path);
  tell_info("NCCL " + gpu::text_of_nccl_version(nccl.version) + " in " + nccl.path +
            " makes the communicators, and takes what Lanecast does not");
  return nccl;
}

}  // namespace

const RealNccl& real_nccl() {
  static const RealNccl nccl = opened();
  return nccl;
}

void* real_function(const char* name) {
  const RealNccl& nccl = real_nccl();
  if (void* const found = nccl.handle == nullptr ? nullptr : dlsym(nccl.handle, name)) return found;
  if (std::string_view(name).ends_with("ncclGetErrorString")) return reinterpret_cast<void*>(&absent_text);
  if (nccl.handle != nullptr)
    tell_always(std::string(name) + ": not in NCCL " + nccl.path + ", which is older than the program; update it");
  return reinterpret_cast<void*>(&absent);
}

}  // namespace lanecast::preload
