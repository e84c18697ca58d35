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

/// Null where other processes cannot map the memory, or it would be of no use.
std::shared_ptr<peers::WindowMemory> opened(const BesideNccl& beside, void* begin, std::size_t bytes) {
  try {
    auto memory = std::make_shared<peers::WindowMemory>(gpu::Device::open(beside.ordinal),
                                                        reinterpret_cast<gpu::Address>(begin), bytes, nullptr);
    if (beside.ours->core->gpu().open_window(memory)) return memory;
  } catch (const std::exception& error) {
    tell_info("rank " + std::to_string(beside.rank) + ": calls copy what lies in " + std::to_string(bytes) +
              " registered bytes: " + error.what());
  }
  return nullptr;
}

/// Peers let go of the memory when they come by: here, too, since a program may make no call for long.
void look(const BesideNccl& beside) {
  try {
    beside.ours->core->gpu().look_at_windows();
  } catch (const std::exception&) {
    // A communicator that has failed: peers let go of it as it ends.
  }
}

void close(const BesideNccl& beside, const std::shared_ptr<peers::WindowMemory>& memory) {
  if (!memory) return;
  memory->retire();
  look(beside);
}

}  // namespace

void keep_window(const ThreadGroup::Window& window) {
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(window.comm);
  if (!beside || !beside->ours || *window.where == nullptr) return;
  std::shared_ptr<peers::WindowMemory> memory = opened(*beside, window.begin, window.bytes);
  const std::lock_guard lock(beside->mutex);
  beside->nccls_windows[*window.where] = {window.begin, window.bytes, window.symmetric, std::move(memory)};
  if (window.symmetric) beside->has_symmetric = true;
}

}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  const int result = real_nccl().CommRegister(theirs(comm), buffer, bytes, handle);
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm));
  if (result != gpu::kNcclSuccess || *handle == nullptr || !beside || !beside->ours)
    return static_cast<ncclResult_t>(result);
  {
    const std::lock_guard lock(beside->mutex);
    if (const auto known = beside->registered.find(*handle); known != beside->registered.end())
      return ++known->second.times, ncclSuccess;
  }
  if (std::shared_ptr<peers::WindowMemory> memory = opened(*beside, buffer, bytes)) {
    const std::lock_guard lock(beside->mutex);
    beside->registered[*handle] = {std::move(memory), 1};
  }
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  if (const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm))) {
    std::unique_lock lock(beside->mutex);
    std::shared_ptr<peers::WindowMemory> last;
    if (const auto known = beside->registered.find(handle);
        known != beside->registered.end() && --known->second.times == 0) {
      last = std::move(known->second.memory);
      beside->registered.erase(known);
    }
    lock.unlock();
    close(*beside, last);
  }
  return static_cast<ncclResult_t>(real_nccl().CommDeregister(theirs(comm), handle));
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int flags) {
  auto** const place = reinterpret_cast<void**>(window);
  const int result = real_nccl().CommWindowRegister(theirs(comm), buffer, bytes, place, flags);
  if (result != gpu::kNcclSuccess) return static_cast<ncclResult_t>(result);
  const ThreadGroup::Window made{theirs(comm), place, static_cast<char*>(buffer), bytes,
                                 (flags & NCCL_WIN_COLL_SYMMETRIC) != 0};
  if (thread_group().messages.is_open())
    thread_group().windows.push_back(made);
  else
    keep_window(made);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm));
  std::shared_ptr<peers::WindowMemory> memory;
  if (beside) {
    std::unique_lock lock(beside->mutex);
    if (auto found = beside->nccls_windows.extract(window)) memory = std::move(found.mapped().memory);
    lock.unlock();
    close(*beside, memory);
  }
  const int result = real_nccl().CommWindowDeregister(theirs(comm), static_cast<void*>(window));
  if (memory) look(*beside);  // all ranks have come to NCCL's by now
  return static_cast<ncclResult_t>(result);
}
