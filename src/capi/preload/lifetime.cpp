// SPDX-License-Identifier: Apache-2.0
// NCCL's functions that make, end and look at communicators: NCCL's are made, and Lanecast's beside them.
#include "capi/handles.h"
#include "capi/nccl_names.h"
#include "capi/preload/beside.h"
#include "capi/preload/groups.h"
#include "capi/preload/making.h"
#include "capi/preload/newer.h"
#include "capi/preload/theirs.h"
#include "device/gpu/beside_captures.h"

namespace lanecast::preload {
namespace {

/// What NCCL has made, or makes at the end of this thread's group.
ncclResult_t made(int result, NcclComm* where, const void* config) {
  const bool in_progress = result == gpu::kNcclInProgress;
  if (result != gpu::kNcclSuccess && !in_progress) return static_cast<ncclResult_t>(result);
  const bool blocking = blocks(config) && !in_progress;  // NCCL_COMM_BLOCKING=0 is not in the config
  ThreadGroup& group = thread_group();
  if (group.messages.is_open())
    group.made.push_back({where, blocking});
  else if (*where != nullptr && blocking)
    make_beside(*where);
  else if (*where != nullptr)
    leave_to_nccl(*where, "its calls do not block (blocking=0)");
  return static_cast<ncclResult_t>(result);
}

/// Ends ours, which its peers hear of, before NCCL ends its own.
void abort_ours(NcclComm comm, const char* function) {
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(comm);
  if (beside && beside->ours) lanecastCommAbort(beside->ours, function);
}

}  // namespace
}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return made(real_nccl().CommInitRank(theirs(comm), nranks, theirs(id), rank), theirs(comm), nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return made(real_nccl().CommInitRankConfig(theirs(comm), nranks, theirs(id), rank, config), theirs(comm), config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int ids, ncclUniqueId* all,
                                      ncclConfig_t* config) {
  auto* const same = reinterpret_cast<NcclUniqueId*>(all);
  return made(real_nccl().CommInitRankScalable(theirs(comm), nranks, rank, ids, same, config), theirs(comm), config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int gpus, const int* list) {
  const int result = real_nccl().CommInitAll(theirs(comms), gpus, list);
  if (result == gpu::kNcclSuccess)
    for (int k = 0; k < gpus; ++k)
      leave_to_nccl(theirs(comms[k]), gpus == 1 ? "it has one rank" : "one process has several GPUs");
  return static_cast<ncclResult_t>(result);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  return made(real_nccl().CommSplit(theirs(comm), color, key, theirs(part), config), theirs(part), config);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* part, ncclConfig_t* config,
                            int flags) {
  if (flags & NCCL_SHRINK_ABORT) abort_ours(theirs(comm), "ncclCommShrink");
  const int result = real_nccl().CommShrink(theirs(comm), excluded, count, theirs(part), config, flags);
  return made(result, theirs(part), config);
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* larger,
                          ncclConfig_t* config) {
  const auto* const same = reinterpret_cast<const NcclUniqueId*>(id);
  return made(real_nccl().CommGrow(theirs(comm), nranks, same, rank, theirs(larger), config), theirs(larger), config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm));
  const ncclResult_t ours =
      beside && beside->ours ? capi::nccl_result(lanecastCommSynchronize(beside->ours)) : ncclSuccess;
  const int result = real_nccl().CommFinalize(theirs(comm));
  return result == gpu::kNcclSuccess ? ours : static_cast<ncclResult_t>(result);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  AllBeside::of_process().take(theirs(comm)).reset();
  return static_cast<ncclResult_t>(real_nccl().CommDestroy(theirs(comm)));
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  abort_ours(theirs(comm), "ncclCommAbort");
  AllBeside::of_process().take(theirs(comm)).reset();
  return static_cast<ncclResult_t>(real_nccl().CommAbort(theirs(comm)));
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  abort_ours(theirs(comm), "ncclCommRevoke");
  return static_cast<ncclResult_t>(real_nccl().CommRevoke(theirs(comm), flags));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  int met = gpu::kNcclSuccess;
  const int result = real_nccl().CommGetAsyncError(theirs(comm), asyncError ? &met : nullptr);
  if (result != gpu::kNcclSuccess || asyncError == nullptr) return static_cast<ncclResult_t>(result);
  *asyncError = static_cast<ncclResult_t>(met);
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(comm));
  if (met != gpu::kNcclSuccess || !beside || !beside->ours) return ncclSuccess;
  lanecastError_t text{};  // the communicator's own is for the thread that makes its calls; watchdogs ask beside it
  *asyncError = capi::nccl_result(capi::guarded(&text, [&] {
    const gpu::BesideCaptures beside_captures(*beside->driver);
    beside->ours->core->gpu().check();
  }));
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t comm) {
  const std::shared_ptr<BesideNccl> beside = comm ? AllBeside::of_process().find(theirs(comm)) : nullptr;
  // Acquire: pairs with told().
  if (beside && beside->failed.load(std::memory_order_acquire)) return lanecastGetLastError(beside->ours);
  return real_nccl().GetLastError(theirs(comm));
}
