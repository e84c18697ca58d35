// SPDX-License-Identifier: Apache-2.0
// NCCL's names: memory that peers may map, by gpu.h.
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "capi/nccl_errors.h"
#include "capi/nccl_names.h"
#include "lanecast/nccl.h"

namespace lanecast::capi {
namespace {

/// What ncclCommRegister hands out.
struct NcclRegistration {
  lanecastComm_t comm;
  lanecastMemory_t adopted;  // null: the memory is ncclMemAlloc's
};

/// One of a process, since NCCL's functions have no other place to keep it.
class NcclMemory {
 public:
  static NcclMemory& of_process() {
    static auto* const all = new NcclMemory;  // never destroyed: programs leave memory to the end of the process
    return *all;
  }

  void put(void* begin, std::size_t bytes, lanecastMemory_t memory) {
    const std::lock_guard lock(mutex_);
    allocated_[static_cast<char*>(begin)] = {memory, bytes, {}};
  }
  /// Null: it is no beginning of any.
  lanecastMemory_t take(void* begin) {
    const std::lock_guard lock(mutex_);
    const auto node = allocated_.extract(static_cast<char*>(begin));
    return node ? node.mapped().memory : nullptr;
  }
  /// Of ncclMemAlloc's, where it lies around all of that; it stays registered, so that once is enough.
  struct FoundAround {
    lanecastMemory_t memory = nullptr;
    bool is_registered = false;
  };
  FoundAround around(void* begin, std::size_t bytes, lanecastComm_t comm) {
    const std::lock_guard lock(mutex_);
    auto after = allocated_.upper_bound(static_cast<char*>(begin));
    if (after == allocated_.begin()) return {};
    auto& [at, found] = *--after;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(begin) - at);
    if (offset > found.bytes || bytes > found.bytes - offset) return {};
    return {found.memory, found.known_to.contains(comm)};
  }

  /// The memory that begins there is registered with this communicator.
  void know(lanecastMemory_t memory, lanecastComm_t comm) {
    const std::lock_guard lock(mutex_);
    for (auto& [begin, allocated] : allocated_)
      if (allocated.memory == memory) allocated.known_to.insert(comm);
  }

  void* keep(NcclRegistration made) {
    auto* const kept = new NcclRegistration(made);
    const std::lock_guard lock(mutex_);
    registrations_.insert(kept);
    return kept;
  }
  /// False: there is none of this communicator's.
  bool drop(void* handle, lanecastComm_t comm) {
    auto* const given = static_cast<NcclRegistration*>(handle);
    std::unique_lock lock(mutex_);
    if (!registrations_.contains(given) || given->comm != comm) return false;
    registrations_.erase(given);
    lock.unlock();
    lanecastMemoryDestroy(given->adopted);
    delete given;
    return true;
  }
  void drop_all(lanecastComm_t comm) {
    std::set<NcclRegistration*> its;
    {
      const std::lock_guard lock(mutex_);
      for (NcclRegistration* each : registrations_)
        if (each->comm == comm) its.insert(each);
      for (auto& [begin, memory] : allocated_) memory.known_to.erase(comm);
    }
    for (NcclRegistration* each : its) drop(each, comm);
  }

 private:
  struct Allocated {
    lanecastMemory_t memory;
    std::size_t bytes;
    std::set<lanecastComm_t> known_to;
  };

  std::mutex mutex_;
  std::map<char*, Allocated, std::less<>> allocated_;
  std::set<NcclRegistration*> registrations_;
};

ncclResult_t registered(ncclComm_t comm, void* buffer, std::size_t bytes, void** handle) {
  if (handle) *handle = nullptr;
  if (!comm) return refused(nullptr, ncclInvalidArgument, "comm: null pointer");
  if (!buffer || !handle || bytes == 0)
    return refused(comm, ncclInvalidArgument, "buff, size, handle: null pointer, or no bytes");
  NcclRegistration made{comm, nullptr};
  NcclMemory::FoundAround around = NcclMemory::of_process().around(buffer, bytes, comm);
  int device = -1, of_use = 0;
  if (!around.memory) {
    lanecastCommGetDevice(comm, &device);
    const lanecastResult_t adopted = lanecastMemoryAdopt(&made.adopted, buffer, bytes, device, comm->error.get());
    if (adopted != lanecastSuccess) return nccl_result(adopted);
    around.memory = made.adopted;
  }
  const lanecastResult_t opened =
      around.is_registered ? lanecastSuccess : lanecastCommRegister(around.memory, &of_use, comm);
  if (of_use != 0 && !made.adopted) NcclMemory::of_process().know(around.memory, comm);
  if (opened == lanecastSuccess)
    *handle = NcclMemory::of_process().keep(made);
  else
    lanecastMemoryDestroy(made.adopted);
  return nccl_result(opened);
}

ncclResult_t given_back(ncclComm_t comm, void* handle) {
  if (handle && NcclMemory::of_process().drop(handle, comm)) return ncclSuccess;
  return refused(comm, ncclInvalidArgument, "handle: no registration of this communicator's");
}

}  // namespace

void forget_registrations(lanecastComm_t comm) { NcclMemory::of_process().drop_all(comm); }

}  // namespace lanecast::capi

using namespace lanecast::capi;

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  lanecastMemory_t memory = nullptr;
  const lanecastResult_t made = lanecastMemoryCreate(&memory, ptr, size, -1, &error_of_thread());
  if (made == lanecastSuccess) NcclMemory::of_process().put(*ptr, size, memory);
  return nccl_result(made);
}

ncclResult_t ncclMemFree(void* ptr) {
  if (!ptr) return ncclSuccess;
  lanecastMemory_t const memory = NcclMemory::of_process().take(ptr);
  if (!memory) return refused(nullptr, ncclInvalidArgument, "ptr: not the start of any memory from ncclMemAlloc");
  return nccl_result(lanecastMemoryDestroy(memory));
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buff, size_t size, void** handle) {
  return registered(comm, buff, size, handle);
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) { return given_back(comm, handle); }

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags) {
  if (winFlags != NCCL_WIN_DEFAULT && winFlags != NCCL_WIN_COLL_SYMMETRIC)
    return refused(
        comm, ncclInvalidArgument,
        "winFlags: " + std::to_string(winFlags) + ", and there are NCCL_WIN_DEFAULT and NCCL_WIN_COLL_SYMMETRIC");
  return registered(comm, buff, size, reinterpret_cast<void**>(win));
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) { return given_back(comm, win); }
