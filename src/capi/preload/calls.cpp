// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives: by Lanecast where it has the communicator and the call, else by NCCL.
#include "capi/preload/taking.h"
#include "capi/preload/theirs.h"

namespace lanecast::preload {
namespace {

/// pass: makes the call by NCCL.
template <class Pass>
ncclResult_t take(const AskedOfNccl& asked, ncclComm_t handle, void* stream, const Pass& pass) {
  const RealNccl& nccl = real_nccl();
  NcclComm const comm = theirs(handle);
  const std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(comm);
  if (!beside || beside->ours == nullptr) return static_cast<ncclResult_t>(pass(nccl, comm));
  if (const char* why = left_to_nccl(asked, *beside)) {
    if (beside->info) tell_way(asked, *beside, why);
    return static_cast<ncclResult_t>(pass(nccl, comm));
  }
  const lanecastCall_t call = as_ours(asked, beside->rank);
  const lanecastResult_t result = lanecastEnqueue(&call, -1, stream, beside->ours);
  // Nothing has moved; the ranks' buffers differ from what Lanecast takes, on all of them as a rule.
  if (result == lanecastUsageError) {
    if (beside->info) tell_way(asked, *beside, lanecastGetLastError(beside->ours));
    return static_cast<ncclResult_t>(pass(nccl, comm));
  }
  if (beside->info) tell_way(asked, *beside, {});
  return told(result, *beside);
}

}  // namespace
}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, CUstream_st* stream) {
  return take({"AllReduce", lanecastCollAllReduce, in, out, count, type, op}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.AllReduce(in, out, count, type, op, real, theirs(stream));
              });
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           CUstream_st* stream) {
  return take(
      {"AllGather", lanecastCollAllGather, in, out, count, type}, comm, stream,
      [&](const RealNccl& nccl, NcclComm real) { return nccl.AllGather(in, out, count, type, real, theirs(stream)); });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, CUstream_st* stream) {
  return take({"ReduceScatter", lanecastCollReduceScatter, in, out, count, type, op}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.ReduceScatter(in, out, count, type, op, real, theirs(stream));
              });
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           CUstream_st* stream) {
  return take({"Broadcast", lanecastCollBroadcast, in, out, count, type, ncclSum, root}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.Broadcast(in, out, count, type, root, real, theirs(stream));
              });
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       CUstream_st* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, CUstream_st* stream) {
  return take({"Reduce", lanecastCollReduce, in, out, count, type, op, root}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.Reduce(in, out, count, type, op, root, real, theirs(stream));
              });
}

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          CUstream_st* stream) {
  return take(
      {"AlltoAll", lanecastCollAllToAll, in, out, count, type}, comm, stream,
      [&](const RealNccl& nccl, NcclComm real) { return nccl.AlltoAll(in, out, count, type, real, theirs(stream)); });
}

ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        CUstream_st* stream) {
  return take({"Gather", lanecastCollGather, in, out, count, type, ncclSum, root}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.Gather(in, out, count, type, root, real, theirs(stream));
              });
}

ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         CUstream_st* stream) {
  return take({"Scatter", lanecastCollScatter, in, out, count, type, ncclSum, root}, comm, stream,
              [&](const RealNccl& nccl, NcclComm real) {
                return nccl.Scatter(in, out, count, type, root, real, theirs(stream));
              });
}
