// SPDX-License-Identifier: Apache-2.0
// Buffers that a program registers with NCCL: windows of Lanecast's, too, where other processes can map them.
#include <exception>

#include "capi/handles.h"
#include "capi/nccl_names.h"
#include "capi/preload/beside.h"
#include "capi/preload/groups.h"
#include "capi/preload/newer.h"
#include "capi/preload/telling.h"
#include "capi/preload/theirs.h"
#include "device/gpu/device.h"

namespace lanecast::preload {
namespace {

void open_window(BesideNccl& beside, void* handle, void* buffer, std::size_t bytes, int ordinal) {
  try {
    auto window = std::make_shared<peers::WindowMemory>(gpu::Device::open(ordinal),
                                                        reinterpret_cast<gpu::Address>(buffer), bytes, nullptr);
    if (!beside.ours->core->gpu().open_window(window)) return;
    const std::lock_guard lock(beside.mutex);
    beside.windows[handle] = std::move(window);
  } catch (const std::exception& error) {
    tell_info("rank " + std::to_string(beside.rank) + ": calls copy what lies in " + std::to_string(bytes) +
              " registered bytes: " + error.what());
  }
}

}  // namespace

void keep_symmetric(const ThreadGroup::Window& window) {
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(window.comm);
  if (!beside || *window.where == nullptr) return;
  const std::lock_guard lock(beside->mutex);
  beside->symmetric[*window.where] = {window.begin, window.bytes};
  beside->has_symmetric = true;
}

}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  const RealNccl& nccl = real_nccl();
  const int result = nccl.CommRegister(theirs(comm), buffer, bytes, handle);
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm));
  int ordinal = 0;
  if (result == gpu::kNcclSuccess && *handle != nullptr && beside && beside->ours &&
      nccl.CommCuDevice(theirs(comm), &ordinal) == gpu::kNcclSuccess)
    open_window(*beside, *handle, buffer, bytes, ordinal);
  return static_cast<ncclResult_t>(result);
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  if (const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm))) {
    const std::lock_guard lock(beside->mutex);
    if (const auto found = beside->windows.find(handle); found != beside->windows.end()) {
      found->second->retire();
      beside->windows.erase(found);
    }
  }
  return static_cast<ncclResult_t>(real_nccl().CommDeregister(theirs(comm), handle));
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  auto** const place = reinterpret_cast<void**>(window);
  const int result = real_nccl().CommWindowRegister(theirs(comm), buffer, bytes, place, flags);
  if (result == gpu::kNcclSuccess && (flags & NCCL_WIN_COLL_SYMMETRIC) != 0) {
    const ThreadGroup::Window made{theirs(comm), place, static_cast<const char*>(buffer), bytes};
    if (thread_group().messages.is_open())
      thread_group().windows.push_back(made);
    else
      keep_symmetric(made);
  }
  return static_cast<ncclResult_t>(result);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm))) {
    const std::lock_guard lock(beside->mutex);
    beside->symmetric.erase(static_cast<void*>(window));
  }
  return static_cast<ncclResult_t>(real_nccl().CommWindowDeregister(theirs(comm), static_cast<void*>(window)));
}
